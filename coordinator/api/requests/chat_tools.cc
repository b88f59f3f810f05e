#include "coordinator/api/requests/chat_tools.h"

#include <fmt/format.h>

namespace quire {

namespace {

[[noreturn]] void RefuseTool(const std::string& field, const std::string& reason) {
  throw ApiError(400, fmt::format("{} {}", field, reason), field.substr(0, field.find_first_of("[.")));
}

Tool ReadTool(const OrderedJson& json, const std::string& field) {
  if (!json.is_object() || json.value("type", OrderedJson()) != "function")
    RefuseTool(field, "must be an object of the type function; no other tools are known here");
  const auto function = json.find("function");
  if (function == json.end() || !function->is_object())
    RefuseTool(field + ".function", "must be an object that holds name, description and parameters");
  Tool tool;
  tool.definition = json;
  const auto member = [&](const char* name) {
    const auto found = function->find(name);
    return found == function->end() ? OrderedJson() : *found;
  };
  if (!member("name").is_string()) RefuseTool(field + ".function.name", "must be a string");
  tool.name = member("name").get<std::string>();
  const OrderedJson description = member("description"), strict = member("strict");
  if (!description.is_null() && !description.is_string())
    RefuseTool(field + ".function.description", "must be a string");
  if (!strict.is_null() && !strict.is_boolean()) RefuseTool(field + ".function.strict", "must be true or false");
  tool.strict = strict == true;
  tool.parameters = member("parameters");
  return CheckedTool(std::move(tool), field + ".function");
}

/// Returns the name of the function that a tool_choice names, in the form of chat or of the Responses API; "" if it
/// names none.
std::string NameIn(const Json& choice) {
  if (!choice.is_object() || choice.value("type", Json()) != "function") return "";
  const Json function = choice.value("function", choice);
  const Json name = function.is_object() ? function.value("name", Json()) : Json();
  return name.is_string() ? name.get<std::string>() : "";
}

/// Reads a tool_choice {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, and removes from
/// `use` all tools that the tool_choice does not list. Throws ApiError for a malformed tool_choice, and for tools that
/// `use` lacks.
ToolChoice AllowTools(const Json& choice, ToolUse& use) {
  constexpr const char* kField = "tool_choice";
  const Json allowed = choice.value("allowed_tools", choice);
  const Json mode = allowed.is_object() ? allowed.value("mode", Json("auto")) : Json();
  if (mode != "auto" && mode != "required") JsonFields::Refuse(kField, "allowed_tools.mode must be auto or required");
  const Json named = allowed.value("tools", Json());
  if (!named.is_array() || named.empty() || named.size() > kMaxTools)
    JsonFields::Refuse(kField, fmt::format("allowed_tools.tools must be a list of 1 to {} functions", kMaxTools));
  std::vector<size_t> places;  // a tool that is named twice counts once
  for (const Json& one : named) {
    const Tool* tool = use.Find(NameIn(one));
    if (tool == nullptr) JsonFields::Refuse(kField, "allowed_tools.tools must name functions that are among the tools");
    const auto place = static_cast<size_t>(tool - use.tools.data());
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  }
  std::vector<Tool> kept;
  for (const size_t place : places) kept.push_back(std::move(use.tools[place]));
  use.tools = std::move(kept);
  ToolChoice out;
  out.mode = mode == "required" ? ToolChoice::kRequired : ToolChoice::kAuto;
  return out;
}

ToolChoice ReadChoice(const Json* choice, ToolUse& use) {
  constexpr const char* kField = "tool_choice";
  ToolChoice out;
  if (choice == nullptr) return out;
  if (choice->is_object() && choice->value("type", Json()) == "allowed_tools") return AllowTools(*choice, use);
  if (*choice == "none") out.mode = ToolChoice::kNone;
  if (*choice == "required") out.mode = ToolChoice::kRequired;
  if (choice->is_string()) {
    if (*choice != "auto" && *choice != "none" && *choice != "required")
      JsonFields::Refuse(kField, "must be auto, none, required or an object that names a function");
  } else {
    out.name = NameIn(*choice);
    if (out.name.empty())
      JsonFields::Refuse(kField,
                         "must be auto, none, required, {\"type\": \"function\", \"function\": {\"name\": ...}} or "
                         "{\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": ..., \"tools\": [...]}}");
    out.mode = ToolChoice::kNamed;
    if (!use.tools.empty() && use.Find(out.name) == nullptr)
      JsonFields::Refuse(kField, "names a function that is not among the tools; add it to tools");
  }
  const bool must = out.mode == ToolChoice::kRequired || out.mode == ToolChoice::kNamed;
  if (must && use.tools.empty())
    JsonFields::Refuse(kField, "asks for a call, but there are no tools; add them, or leave it out");
  return out;
}

}  // namespace

Tool CheckedTool(Tool tool, const std::string& field) {
  if (tool.name.empty() || tool.name.size() > kMaxToolNameBytes || !std::ranges::all_of(tool.name, IsToolNameByte)) {
    RefuseTool(field + ".name", fmt::format("must be 1 to {} letters, digits and _ - . : /, so that calls can be told",
                                            kMaxToolNameBytes));
  }
  if (tool.parameters.is_null()) return tool;
  const bool of_object =
      tool.parameters.is_object() && (!tool.parameters.contains("type") || tool.parameters["type"] == "object");
  if (!of_object) RefuseTool(field + ".parameters", "must be a JSON schema of the type object");
  return tool;
}

ToolUse ReadTools(const RequestBody& body, const JsonFields& fields) {
  ToolUse use;
  if (const Json* tools = fields.Find("tools")) {
    if (!tools->is_array() || tools->size() > kMaxTools)
      JsonFields::Refuse("tools", fmt::format("must be a list of at most {} tools", kMaxTools));
    const OrderedJson listed = tools->empty() ? OrderedJson::array() : body.Exact()["tools"];
    for (size_t i = 0; i < listed.size(); ++i) {
      Tool tool = ReadTool(listed[i], fmt::format("tools[{}]", i));
      if (use.Find(tool.name) != nullptr)
        RefuseTool(fmt::format("tools[{}].function.name", i), "is there twice; give each tool a name of its own");
      use.tools.push_back(std::move(tool));
    }
  }
  use.choice = ReadChoice(fields.Find("tool_choice"), use);
  use.parallel = fields.Flag("parallel_tool_calls", true);
  return use;
}

}  // namespace quire
