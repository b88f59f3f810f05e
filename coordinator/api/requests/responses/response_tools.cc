#include "coordinator/api/requests/responses/response_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "coordinator/api/requests/chat_tools.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/responses/custom_format.h"
#include "coordinator/api/requests/told_once.h"

namespace quire {

namespace {

/// Types of tools that OpenAI executes, or for which its models were trained. A date may follow: web_search_2025_08_26.
constexpr std::string_view kOfProviders[] = {"web_search",
                                             "web_search_preview",
                                             "file_search",
                                             "code_interpreter",
                                             "image_generation",
                                             "mcp",
                                             "computer",
                                             "computer_use_preview",
                                             "computer_use",
                                             "local_shell",
                                             "shell",
                                             "apply_patch",
                                             kToolSearch};

/// Returns the type without a date at its end.
std::string_view WithoutDate(std::string_view type) {
  const size_t last = type.find_last_not_of("0123456789_");
  const bool dated = last != std::string_view::npos && type.size() - last > 8;
  return dated ? type.substr(0, last + 1) : type;
}

bool IsOfProviders(std::string_view type) { return IsIn(WithoutDate(type), kOfProviders); }

OrderedJson ChatTool(OrderedJson function) { return {{"type", "function"}, {"function", std::move(function)}}; }

std::string NameOf(const OrderedJson& chat_tool) { return chat_tool["function"]["name"].get<std::string>(); }

}  // namespace

std::string ShownToolName(const std::string& name_space, const std::string& name) {
  if (name_space.empty()) return name;
  return name_space + (name_space.ends_with("__") ? "" : "__") + name;
}

std::vector<std::string> OfferedTools::Add(const JsonObject& holder, const char* name, bool again) {
  met_.clear();
  holder.ForEach(name, [&](const JsonObject& tool) { AddTool(tool, "", again); });
  return std::exchange(met_, {});
}

void OfferedTools::AddTool(const JsonObject& tool, const std::string& name_space, bool again) {
  const std::string type = tool.Text("type");
  if (type == "function") return AddFunction(tool, name_space, again);
  if (type == "custom") return AddCustom(tool, name_space, again);
  if (type == "namespace" && name_space.empty()) {
    tool.KnowOnly({"type", "name", "description", "tools"});
    const std::string inner = tool.Text("name");
    if (inner.empty() || inner.size() > kMaxToolNameBytes)
      tool.Refuse("name", fmt::format("must be 1 to {} bytes", kMaxToolNameBytes));
    (void)tool.OptionalText("description");
    return tool.ForEach("tools", [&](const JsonObject& one) { AddTool(one, inner, again); });
  }
  if (type == kToolSearch && tool.OptionalText("execution").value_or("server") == "client")
    return AddSearch(tool, again);
  if (!IsOfProviders(type))
    tool.Refuse("type", "is " + type.substr(0, 50) +
                            "; only function, custom, namespace and tools that OpenAI runs itself are known here");
  TellOnce("tool " + std::string(WithoutDate(type)),
           fmt::format("tools of the type {} are left out of what the model sees: this server runs no tools", type));
}

void OfferedTools::AddFunction(const JsonObject& tool, const std::string& name_space, bool again) {
  tool.KnowOnly({"type", "name", "description", "parameters", "strict", "defer_loading", "output_schema"});
  const std::string name = tool.Text("name");
  OrderedJson function = {{"name", ShownToolName(name_space, name)}};
  if (const auto description = tool.OptionalText("description")) function["description"] = *description;
  if (tool.Has("parameters")) function["parameters"] = tool.Object("parameters").value();
  if (tool.Has("strict")) function["strict"] = tool.Flag("strict", false);
  Put(tool, std::move(function), {ResponseTool::kFunction, name, name_space}, again);
}

void OfferedTools::AddCustom(const JsonObject& tool, const std::string& name_space, bool again) {
  tool.KnowOnly({"type", "name", "description", "format", "defer_loading"});
  const std::string name = tool.Text("name");
  OrderedJson input = {{"type", "string"}};
  bool strict = false;
  if (tool.Has("format")) strict = AddCustomFormat(tool.Object("format"), input);
  OrderedJson function = {{"name", ShownToolName(name_space, name)}};
  std::string description = tool.OptionalText("description").value_or("");
  description += fmt::format("{}The text goes into the argument {}.", description.empty() ? "" : " ", kCustomInput);
  function["description"] = std::move(description);
  function["parameters"] = {{"type", "object"},
                            {"properties", {{kCustomInput, std::move(input)}}},
                            {"required", OrderedJson::array({kCustomInput})},
                            {"additionalProperties", false}};
  if (strict) function["strict"] = true;
  Put(tool, std::move(function), {ResponseTool::kCustom, name, name_space}, again);
}

void OfferedTools::AddSearch(const JsonObject& tool, bool again) {
  tool.KnowOnly({"type", "execution", "description", "parameters"});
  OrderedJson function = {{"name", kToolSearch}};
  function["description"] = tool.OptionalText("description").value_or("Finds tools that can then be called.");
  if (tool.Has("parameters")) function["parameters"] = tool.Object("parameters").value();
  Put(tool, std::move(function), {ResponseTool::kSearch, kToolSearch, ""}, again);
}

void OfferedTools::Put(const JsonObject& tool, OrderedJson function, ResponseTool known, bool again) {
  std::string name = function["name"].get<std::string>();
  Tool checked;
  checked.name = name;
  if (function.contains("parameters")) checked.parameters = function["parameters"];
  (void)CheckedTool(std::move(checked), tool.place());
  const bool there = Shows(name);
  if (std::ranges::find(met_, name) == met_.end()) met_.push_back(name);
  if (there && again) return;
  if (there) tool.Refuse("name", fmt::format("is there twice, as {}; give each tool a name of its own", name));
  if (chat_.size() >= kMaxTools)
    tool.Refuse(fmt::format("is one more than the {} tools that are taken; offer fewer", kMaxTools));
  const bool plain = known.kind == ResponseTool::kFunction && known.name == name;
  if (!plain) known_[std::move(name)] = std::move(known);
  chat_.push_back(ChatTool(std::move(function)));
}

/// True when the model sees a tool with this name.
bool OfferedTools::Shows(const std::string& name) const {
  return std::ranges::any_of(chat_, [&](const OrderedJson& tool) { return NameOf(tool) == name; });
}

/// Returns the name under which the model sees the tool that `choice` names; empty when a provider would execute it.
std::string OfferedTools::NameOfChoice(const JsonObject& choice) const {
  const std::string type = choice.Text("type");
  if (IsOfProviders(type) && type != kToolSearch) return "";
  if (type == kToolSearch) return known_.contains(kToolSearch) ? kToolSearch : "";
  if (type != "function" && type != "custom")
    choice.Refuse("type",
                  "is " + type.substr(0, 50) + "; only function, custom, allowed_tools and types of tools are known");
  choice.KnowOnly({"type", "name", "namespace"});
  std::string name = ShownToolName(choice.OptionalText("namespace").value_or(""), choice.Text("name"));
  const auto known = known_.find(name);
  const bool custom = known != known_.end() && known->second.kind == ResponseTool::kCustom;
  const bool there = Shows(name);
  if (!chat_.empty() && (!there || custom != (type == "custom")))
    choice.Refuse("name", fmt::format("names no {} among the tools", type == "custom" ? "custom tool" : "function"));
  return name;
}

OrderedJson OfferedTools::Choose(const JsonObject& body) {
  const OrderedJson& choice = *body.Find("tool_choice");
  if (choice.is_string()) return choice;
  const JsonObject named = body.Object("tool_choice");
  if (named.Text("type") == "allowed_tools") {
    named.KnowOnly({"type", "mode", "tools"});
    const std::string mode = named.OptionalText("mode").value_or("auto");
    if (mode != "auto" && mode != "required") named.Refuse("mode", "must be auto or required");
    std::vector<std::string> names;
    named.ForEach("tools", [&](const JsonObject& one) { names.push_back(NameOfChoice(one)); });
    Keep(names);
    if (mode == "required" && chat_.empty())
      named.Refuse("tools", "name none that this server's model can call, and one has to be called");
    return mode;
  }
  const std::string name = NameOfChoice(named);
  if (name.empty())
    named.Refuse("type", fmt::format("asks for {}, which this server does not run; name a function, or leave it out",
                                     named.Text("type").substr(0, 50)));
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

void OfferedTools::Keep(const std::vector<std::string>& names) {
  OrderedJson kept = OrderedJson::array();
  for (OrderedJson& tool : chat_) {
    if (std::ranges::find(names, NameOf(tool)) != names.end()) kept.push_back(std::move(tool));
  }
  chat_ = std::move(kept);
}

int64_t BytesOf(const ResponseTools& tools) {
  constexpr int64_t kNode = 256;
  int64_t bytes = 0;
  for (const auto& [shown, tool] : tools)
    bytes += kNode + static_cast<int64_t>(shown.capacity() + tool.name.capacity() + tool.name_space.capacity());
  return bytes;
}

std::string CustomInputOf(const std::string& arguments) {
  constexpr size_t kLongestEscape = 12;  // a surrogate pair, \uXXXX\uXXXX
  const auto input_in = [](const std::string& text) -> std::optional<std::string> {
    const OrderedJson parsed = OrderedJson::parse(text, nullptr, false);
    const auto found = parsed.is_object() ? parsed.find(kCustomInput) : parsed.end();
    if (found == parsed.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  };
  if (auto input = input_in(arguments)) return *input;
  // The arguments were cut off. Complete the JSON, without an incomplete escape at its end, and return its text.
  for (size_t less = 0; less <= std::min(kLongestEscape, arguments.size()); ++less) {
    if (auto input = input_in(arguments.substr(0, arguments.size() - less) + "\"}")) return *input;
  }
  return arguments;
}

}  // namespace quire
