#include "coordinator/api/requests/messages/messages_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/client_tools.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/told_once.h"

namespace quire {

namespace {

constexpr int kMostFixedTools = 16;
constexpr std::string_view kToolSearchTool = "tool_search_tool";

/// Families of tools that Anthropic's servers execute.
constexpr std::string_view kProviderFamilies[] = {"web_search", "web_fetch", "code_execution", "advisor"};
constexpr std::string_view kProviderTypes[] = {"mcp_toolset", "tool_search_tool_bm25", "tool_search_tool_regex"};
/// Tools whose results are images of a screen.
constexpr std::string_view kScreenFamilies[] = {"computer", "computer_toolset", "browser_toolset"};

bool IsOneOf(std::string_view type, const auto& families) {
  return std::ranges::any_of(families, [&](std::string_view family) { return IsOfFamily(type, family); });
}

bool IsRunByProvider(std::string_view type) {
  return IsOneOf(type, kProviderFamilies) || IsOneOf(type, kProviderTypes) || IsIn(type, kProviderTypes);
}

std::string TypeOf(const JsonObject& tool) { return tool.OptionalText("type").value_or("custom"); }

/// Returns false when only code that the provider runs may call the tool.
bool IsCalledByModels(const JsonObject& tool) {
  const OrderedJson* callers = tool.Find("allowed_callers");
  if (callers == nullptr) return true;
  if (!callers->is_array()) tool.Refuse("allowed_callers", "must be a list of strings");
  return std::ranges::find(*callers, "direct") != callers->end();
}

/// Appends the tool's examples to its description.
void AddExamples(const JsonObject& tool, OrderedJson& function) {
  const OrderedJson* examples = tool.Find("input_examples");
  if (examples == nullptr || *examples == OrderedJson::array()) return;
  std::string words = function.contains("description") ? function["description"].get<std::string>() : "";
  words += std::string(words.empty() ? "" : "\n\n") + "Examples of its input:";
  tool.ForEach("input_examples", [&](const JsonObject& example) { words += "\n" + DumpExactJson(example.value()); });
  function["description"] = words;
}

/// Returns OpenAI's tool object for a tool that clients execute.
OrderedJson FunctionOf(const JsonObject& tool, const std::string& type) {
  OrderedJson function = {{"name", tool.Text("name")}};
  if (const auto fixed = ClientToolOf(type)) {
    tool.KnowOnly({"type", "name", "strict", "cache_control", "defer_loading", "eager_input_streaming",
                   "allowed_callers", "input_examples", "max_characters"});
    function.update(*fixed);
  } else {
    tool.KnowOnly({"type", "name", "description", "input_schema", "strict", "cache_control", "defer_loading",
                   "eager_input_streaming", "allowed_callers", "input_examples"});
    if (const auto description = tool.OptionalText("description")) function["description"] = *description;
    function["parameters"] = tool.Object("input_schema").value();
  }
  AddExamples(tool, function);
  (void)tool.Flag("eager_input_streaming", true);  // checked only: input is always streamed
  if (tool.Has("strict")) function["strict"] = tool.Flag("strict", false);
  return {{"type", "function"}, {"function", std::move(function)}};
}

void RefuseUnknownType(const JsonObject& tool, const std::string& type) {
  if (type == "custom" || ClientToolOf(type)) return;
  if (IsOneOf(type, kScreenFamilies))
    tool.Refuse("type",
                "is " + type.substr(0, 50) + ", whose results are images; this server takes texts only: leave it out");
  tool.Refuse("type", "is " + type.substr(0, 50) +
                          ", which this server does not know; describe the tool by an input_schema, with the type "
                          "custom");
}

}  // namespace

/// Throws ApiError for more than kMostFixedTools tools whose definition this server supplies. Each such tool adds a
/// long text to the prompt for a few bytes of the request.
void MessagesTools::CountFixed(const JsonObject& tool, const std::string& type) {
  if (!ClientToolOf(type) || ++num_fixed_ <= kMostFixedTools) return;
  tool.Refuse("type", fmt::format("is {}: a request takes at most {} tools of such types; leave out the others",
                                  type.substr(0, 50), kMostFixedTools));
}

void MessagesTools::Read(const JsonObject& body) {
  if (const OrderedJson* servers = body.Find("mcp_servers")) {
    if (!servers->is_array()) body.Refuse("mcp_servers", "must be a list");
    if (!servers->empty()) TellLeftOut("mcp_servers of Messages: this server runs no tools; clients may");
  }
  if (!body.Has("tools")) return;
  // If the request relies on a provider's search for tools, the model could never find the deferred tools. So the model
  // then sees all tools from the start.
  bool searched = false;
  body.ForEach("tools",
               [&](const JsonObject& tool) { searched = searched || TypeOf(tool).starts_with(kToolSearchTool); });
  body.ForEach("tools", [&](const JsonObject& tool) { ReadTool(tool, !searched); });
}

void MessagesTools::ReadTool(const JsonObject& tool, bool defers) {
  const std::string type = TypeOf(tool);
  if (LeavesOut(tool, type)) return;
  RefuseUnknownType(tool, type);
  CountFixed(tool, type);
  OrderedJson function = FunctionOf(tool, type);
  Entry entry{.name = tool.Text("name")};
  if (Find(entry.name) != nullptr) tool.Refuse("name", "is there twice; give each tool a name of its own");
  if (tool.Flag("defer_loading", false) && defers) {
    entry.deferred = std::move(function);
  } else {
    entry.shown = entry.callable = std::move(function);
  }
  AddEntry(std::move(entry));
}

bool MessagesTools::LeavesOut(const JsonObject& tool, const std::string& type) {
  if (IsRunByProvider(type)) {
    TellLeftOut(fmt::format("tools of the type {} of Messages: this server runs no tools", type.substr(0, 50)));
  } else if (!IsCalledByModels(tool)) {
    TellLeftOut("tools of Messages whose allowed_callers are not direct: this server runs no code");
  } else {
    return false;
  }
  if (const auto name = tool.OptionalText("name")) of_provider_.insert(*name);
  return true;
}

MessagesTools::Entry* MessagesTools::Find(const std::string& name) {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second];
}

MessagesTools::Entry& MessagesTools::AddEntry(Entry entry) {
  places_[entry.name] = entries_.size();
  return entries_.emplace_back(std::move(entry));
}

std::string MessagesTools::Load(const std::string& name) {
  Entry* entry = Find(name);
  if (entry == nullptr || !entry->callable.is_null()) return name + "\n";
  entry->callable = entry->deferred.is_null() ? entry->shown : entry->deferred;
  const bool known = entry->deferred.is_null() || std::exchange(entry->told, true);
  if (known) return fmt::format("The function {} may be called again.\n", name);
  return DumpExactJson(entry->callable) + "\n";
}

std::string MessagesTools::Define(const JsonObject& definition) {
  const std::string type = TypeOf(definition);
  if (LeavesOut(definition, type)) return "";
  RefuseUnknownType(definition, type);
  CountFixed(definition, type);
  OrderedJson function = FunctionOf(definition, type);
  const std::string name = definition.Text("name");
  Entry* entry = Find(name);
  if (entry == nullptr) entry = &AddEntry({.name = name});
  entry->deferred = entry->callable = std::move(function);
  entry->told = true;
  return "This function may be called from now on:\n" + DumpExactJson(entry->callable) + "\n";
}

std::string MessagesTools::Remove(const std::string& name) {
  Entry* entry = Find(name);
  if (entry == nullptr || entry->callable.is_null()) return "";
  entry->callable = nullptr;
  return fmt::format("The function {} may not be called any more.\n", name);
}

OrderedJson MessagesTools::Shown() const {
  OrderedJson tools = OrderedJson::array();
  for (const Entry& entry : entries_) {
    if (!entry.shown.is_null()) tools.push_back(entry.shown);
  }
  return tools.empty() ? Callable() : tools;  // an empty list would hide the form of calls from the model
}

OrderedJson MessagesTools::Callable() const {
  OrderedJson tools = OrderedJson::array();
  for (const Entry& entry : entries_) {
    if (!entry.callable.is_null()) tools.push_back(entry.callable);
  }
  return tools;
}

void MessagesTools::AddChoice(const JsonObject& choice, OrderedJson& chat) {
  choice.KnowOnly({"type", "name", "disable_parallel_tool_use"});
  const std::string type = choice.Text("type");
  if (type == "tool") {
    const std::string name = choice.Text("name");
    if (of_provider_.contains(name))
      choice.Refuse("name", "is that of a tool that a provider would run; this server runs none, so leave it out");
    Entry* entry = Find(name);
    if (entry != nullptr && entry->callable.is_null() && !entry->deferred.is_null())
      entry->shown = entry->callable = entry->deferred;
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
  } else if (type == "auto" || type == "none" || type == "any") {
    if (type == "any" && Callable().empty() && !of_provider_.empty())
      choice.Refuse("type",
                    "asks for a call, but all the tools are ones that a provider would run; describe tools of your own "
                    "by an input_schema");
    chat["tool_choice"] = type == "any" ? "required" : type;
  } else {
    choice.Refuse("type", "must be auto, any, tool or none");
  }
  if (choice.Flag("disable_parallel_tool_use", false)) chat["parallel_tool_calls"] = false;
}

}  // namespace quire
