#include "coordinator/api/requests/context_edits.h"

#include <algorithm>
#include <map>
#include <utility>

namespace quire {

namespace {

constexpr const char* kClearThoughts = "clear_thinking_20251015";
constexpr const char* kClearToolUses = "clear_tool_uses_20250919";
constexpr const char* kCompact = "compact_20260112";
constexpr const char* kCleared = "[Old tool result content cleared]";
constexpr const char* kThoughtNames[] = {"reasoning_content", "reasoning", "thinking"};  // names for one text

int64_t Count(const JsonObject& object, const char* name) {
  const OrderedJson* value = object.Find(name);
  if (value == nullptr) object.Refuse(name, "is missing");
  if (!value->is_number_integer() || *value < 0) object.Refuse(name, "must be an integer of at least 0");
  return value->is_number_unsigned() ? static_cast<int64_t>(std::min<uint64_t>(value->get<uint64_t>(), INT64_MAX))
                                     : value->get<int64_t>();
}

/// Reads {"type": T, "value": COUNT}, where T is `type` or `or_type`, and returns COUNT.
int64_t Valued(const JsonObject& object, const char* type, const char* or_type = "") {
  object.KnowOnly({"type", "value"});
  const std::string given = object.Text("type");
  if (given != type && given != or_type) {
    object.Refuse("type", std::string("must be ") + type + (*or_type == 0 ? "" : std::string(" or ") + or_type));
  }
  return Count(object, "value");
}

std::set<std::string> Names(const JsonObject& object, const char* name) {
  std::set<std::string> names;
  const OrderedJson* list = object.Find(name);
  if (list == nullptr) return names;
  if (!list->is_array()) object.Refuse(name, "must be a list of strings");
  for (const OrderedJson& one : *list) {
    if (!one.is_string()) object.Refuse(name, "must be a list of strings");
    names.insert(one.get<std::string>());
  }
  return names;
}

ContextEdit ReadClearThoughts(const JsonObject& json) {
  json.KnowOnly({"type", "keep"});
  ContextEdit edit{.of_thoughts = true, .keep = 1};
  const OrderedJson* keep = json.Find("keep");
  if (keep == nullptr) return edit;
  const bool all = *keep == "all" || (keep->is_object() && keep->value("type", OrderedJson()) == "all");
  edit.keep = all ? INT64_MAX : Valued(json.Object("keep"), "thinking_turns");
  return edit;
}

ContextEdit ReadClearToolUses(const JsonObject& json) {
  json.KnowOnly({"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"});
  ContextEdit edit{.keep = 3, .above_tokens = 100'000};
  if (json.Has("trigger")) {
    const JsonObject trigger = json.Object("trigger");
    const int64_t value = Valued(trigger, "input_tokens", "tool_uses");
    const bool of_uses = trigger.Text("type") == "tool_uses";
    edit.above_tokens = of_uses ? -1 : value;
    edit.above_uses = of_uses ? value : -1;
  }
  if (json.Has("keep")) edit.keep = Valued(json.Object("keep"), "tool_uses");
  if (json.Has("clear_at_least")) edit.least_tokens = Valued(json.Object("clear_at_least"), "input_tokens");
  edit.excluded = Names(json, "exclude_tools");
  const OrderedJson* inputs = json.Find("clear_tool_inputs");
  if (inputs != nullptr && inputs->is_boolean()) {
    edit.all_inputs = inputs->get<bool>();
  } else {
    edit.inputs_of = Names(json, "clear_tool_inputs");
  }
  return edit;
}

/// Refuses an edit that asks for a summary, which this server cannot make. Accepts the edit if it would only apply to
/// prompts longer than the context.
void RefuseCompact(const JsonObject& json, int64_t max_model_len) {
  json.KnowOnly({"type", "instructions", "pause_after_compaction", "trigger"});
  constexpr int64_t kUsual = 150'000;
  const int64_t above = json.Has("trigger") ? Valued(json.Object("trigger"), "input_tokens") : kUsual;
  if (above < max_model_len) {
    json.Refuse("type", std::string("is ") + kCompact +
                            ", and this server makes no summaries; leave it out and ask for one in a request of its "
                            "own, or clear results of tools");
  }
}

bool HasThoughts(const OrderedJson& message) {
  return std::ranges::any_of(kThoughtNames, [&](const char* name) { return message.contains(name); });
}

/// Clears the thoughts of all messages with thoughts, except the latest edit.keep such messages. Returns the number of
/// messages that lost thoughts.
int64_t ClearThoughts(const ContextEdit& edit, OrderedJson& messages) {
  int64_t cleared = 0, seen = 0;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (!HasThoughts(*message) || seen++ < edit.keep) continue;
    for (const char* name : kThoughtNames) message->erase(name);
    ++cleared;
  }
  return cleared;
}

/// One use of a tool: the message with its result, and the function object of its call.
struct ToolUseAt {
  OrderedJson *result, *function;  // `function` is null when the call is missing
};

/// Finds the uses of tools in the order of the conversation, without the uses of excluded tools.
std::vector<ToolUseAt> ToolUsesOf(const ContextEdit& edit, OrderedJson& messages) {
  std::vector<ToolUseAt> uses;
  std::map<std::string, OrderedJson*> functions;  // id of the call -> its function object
  for (OrderedJson& message : messages) {
    if (message.contains("tool_calls")) {
      for (OrderedJson& call : message["tool_calls"]) {
        if (call.contains("id")) functions[call["id"].get<std::string>()] = &call["function"];
      }
    }
    if (message["role"] != "tool") continue;
    const auto found = functions.find(message.value("tool_call_id", ""));
    OrderedJson* function = found == functions.end() ? nullptr : found->second;
    if (function != nullptr && edit.excluded.contains((*function)["name"].get<std::string>())) continue;
    uses.push_back({&message, function});
  }
  return uses;
}

/// Clears all but the latest edit.keep uses of tools, if there are more than edit.above_uses uses. Returns how many
/// uses it cleared.
int64_t ClearToolUses(const ContextEdit& edit, OrderedJson& messages) {
  const std::vector<ToolUseAt> uses = ToolUsesOf(edit, messages);
  const auto count = static_cast<int64_t>(uses.size());
  if (count <= edit.above_uses || count <= edit.keep) return 0;
  for (int64_t i = 0; i < count - edit.keep; ++i) {
    const auto& [result, function] = uses[static_cast<size_t>(i)];
    (*result)["content"] = kCleared;
    if (function == nullptr) continue;
    if (edit.all_inputs || edit.inputs_of.contains((*function)["name"].get<std::string>()))
      (*function)["arguments"] = "{}";
  }
  return count - edit.keep;
}

}  // namespace

ContextEdits ReadContextEdits(const JsonObject& config, int64_t max_model_len) {
  config.KnowOnly({"edits"});
  ContextEdits out{.asked = true};
  if (!config.Has("edits")) return out;
  std::set<std::string> types;
  config.ForEach("edits", [&](const JsonObject& json) {
    const std::string type = json.Text("type");
    if (!types.insert(type).second) json.Refuse("type", "is there twice; send one edit of each type");
    if (type == kClearThoughts) {
      if (const ContextEdit edit = ReadClearThoughts(json); edit.keep < INT64_MAX) out.edits.push_back(edit);
    } else if (type == kClearToolUses) {
      out.edits.push_back(ReadClearToolUses(json));
    } else if (type == kCompact) {
      RefuseCompact(json, max_model_len);
    } else {
      json.Refuse("type", std::string("must be ") + kClearThoughts + " or " + kClearToolUses);
    }
  });
  return out;
}

OrderedJson ApplyContextEdits(const ContextEdits& edits, OrderedJson& messages,
                              const std::function<int64_t(const OrderedJson& messages)>& count) {
  OrderedJson done = OrderedJson::array();
  int64_t tokens = -1;  // tokens of the prompt after the edits until now; -1: not counted yet
  for (const ContextEdit& edit : edits.edits) {
    OrderedJson edited = messages;
    const int64_t cleared = edit.of_thoughts ? ClearThoughts(edit, edited) : ClearToolUses(edit, edited);
    if (cleared == 0) continue;
    if (tokens < 0) tokens = count(messages);
    if (tokens <= edit.above_tokens) continue;
    const int64_t fewer = count(edited), saved = std::max<int64_t>(0, tokens - fewer);
    if (saved < edit.least_tokens) continue;
    messages = std::move(edited);
    tokens = fewer;
    done.push_back({{"type", edit.of_thoughts ? kClearThoughts : kClearToolUses},
                    {edit.of_thoughts ? "cleared_thinking_turns" : "cleared_tool_uses", cleared},
                    {"cleared_input_tokens", saved}});
  }
  return done;
}

}  // namespace quire
