#include "coordinator/api/requests/messages_request.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/passed_fields.h"

namespace quire {

namespace {

/// Change nothing about the answer of a server that has one class of service and caches by itself.
constexpr const char* kHarmlessInMessages[] = {"metadata", "service_tier", "cache_control", "user_profile_id"};
constexpr const char* kTranslatedMessages[] = {"messages",    "system",        "stop_sequences", "tools",
                                               "tool_choice", "output_config", "output_format",  "thinking"};

void RefuseUnknownInMessage(const JsonObject& body) {
  for (const auto& [name, value] : body.value().items()) {
    const bool known =
        IsPassedOn(name) || name == "max_tokens" || IsIn(name, kHarmlessInMessages) || IsIn(name, kTranslatedMessages);
    if (!known && !value.is_null()) body.Refuse(name.substr(0, 100), "is not supported by this server");
  }
}

/// The text of a block; other kinds are refused with their name.
std::string TextBlock(const JsonObject& block) {
  const std::string type = block.Text("type");
  if (type != "text") block.Refuse("type", "is " + type.substr(0, 50) + "; only text blocks are supported here");
  block.KnowOnly({"type", "text", "cache_control", "citations"});
  if (const OrderedJson* citations = block.Find("citations"); citations != nullptr && !citations->empty())
    block.Refuse("citations", "is not supported by this server");
  return block.Text("text");
}

/// A string, or a list of text blocks; nothing where there is neither.
std::string TextOrBlocks(const JsonObject& holder, const char* name) {
  return holder.Has(name) ? holder.JoinedText(name, TextBlock) : "";
}

/// Turns of one conversation, written as messages of a chat. Blocks of neighbouring turns of one role are one turn.
class Turns {
 public:
  void AddSystem(std::string text) { messages_.push_back({{"role", "system"}, {"content", std::move(text)}}); }

  void Add(const JsonObject& turn) {
    turn.KnowOnly({"role", "content"});
    const std::string role = turn.Text("role");
    if (role != "user" && role != "assistant" && role != "system")
      turn.Refuse("role", "must be user, assistant or system");
    const OrderedJson* content = turn.Find("content");
    if (content == nullptr) turn.Refuse("content", "is missing");
    if (role_ == role) gap_ = "\n";
    role_ = role;
    if (content->is_string()) {
      AddText(content->get<std::string>());
    } else {
      turn.ForEach("content", [&](const JsonObject& block) { AddBlock(block); });
    }
  }

  const std::string& last_role() const { return role_; }
  OrderedJson Take() { return std::move(messages_); }

 private:
  OrderedJson& Last() {
    const bool goes_on = !messages_.empty() && messages_.back()["role"] == role_;
    if (!goes_on) messages_.push_back({{"role", role_}, {"content", ""}});
    return messages_.back();
  }

  void AddText(const std::string& text) {
    std::string& content = Last()["content"].get_ref<std::string&>();
    if (!content.empty()) content += gap_;
    gap_.clear();
    content += text;
  }

  void AddBlock(const JsonObject& block) {
    const std::string type = block.Text("type");
    if (type == "tool_use" && role_ == "assistant") return AddCall(block);
    if (type == "tool_result" && role_ == "user") return AddResult(block);
    if (type == "thinking" && role_ == "assistant") return AddThinking(block);
    AddText(TextBlock(block));
  }

  void AddCall(const JsonObject& block) {
    block.KnowOnly({"type", "id", "name", "input", "cache_control", "caller"});
    const JsonObject input = block.Object("input");
    OrderedJson& calls = Last()["tool_calls"];
    calls.push_back({{"id", block.Text("id")},
                     {"type", "function"},
                     {"function", {{"name", block.Text("name")}, {"arguments", DumpExactJson(input.value())}}}});
  }

  void AddResult(const JsonObject& block) {
    block.KnowOnly({"type", "tool_use_id", "content", "is_error", "cache_control"});
    std::string text = TextOrBlocks(block, "content");
    if (block.Flag("is_error", false)) text = "Error: " + text;
    messages_.push_back({{"role", "tool"}, {"tool_call_id", block.Text("tool_use_id")}, {"content", std::move(text)}});
    gap_.clear();
  }

  void AddThinking(const JsonObject& block) {
    block.KnowOnly({"type", "thinking", "signature"});
    OrderedJson& thoughts = Last()["reasoning_content"];
    if (thoughts.is_null()) thoughts = "";
    thoughts.get_ref<std::string&>() += block.Text("thinking");
  }

  OrderedJson messages_ = OrderedJson::array();
  std::string role_, gap_;  // between what was said and what comes next
};

OrderedJson Messages(const JsonObject& body) {
  Turns turns;
  if (std::string system = TextOrBlocks(body, "system"); !system.empty()) turns.AddSystem(std::move(system));
  body.ForEach("messages", [&](const JsonObject& turn) { turns.Add(turn); });
  if (turns.last_role() == "assistant")
    body.Refuse("messages", "must end with a turn of the user: the beginning of an answer cannot be given here");
  return turns.Take();
}

OrderedJson Tools(const JsonObject& body) {
  OrderedJson tools = OrderedJson::array();
  body.ForEach("tools", [&](const JsonObject& tool) {
    if (tool.OptionalText("type").value_or("custom") != "custom")
      tool.Refuse("type", "must be custom: this server has no tools of its own");
    tool.KnowOnly({"type", "name", "description", "input_schema", "strict", "cache_control"});
    OrderedJson function = {{"name", tool.Text("name")}};
    if (const auto description = tool.OptionalText("description")) function["description"] = *description;
    function["parameters"] = tool.Object("input_schema").value();
    if (tool.Has("strict")) function["strict"] = tool.Flag("strict", false);
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  });
  return tools;
}

void AddToolChoice(const JsonObject& choice, OrderedJson& chat) {
  choice.KnowOnly({"type", "name", "disable_parallel_tool_use"});
  const std::string type = choice.Text("type");
  if (type == "tool") {
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice.Text("name")}}}};
  } else if (type == "auto" || type == "none" || type == "any") {
    chat["tool_choice"] = type == "any" ? "required" : type;
  } else {
    choice.Refuse("type", "must be auto, any, tool or none");
  }
  if (choice.Flag("disable_parallel_tool_use", false)) chat["parallel_tool_calls"] = false;
}

/// {"type": "json_schema", "schema": ...}
OrderedJson ResponseFormat(const JsonObject& format) {
  format.KnowOnly({"type", "schema"});
  if (format.Text("type") != "json_schema") format.Refuse("type", "must be json_schema");
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", format.Object("schema").value()}}}};
}

void AddOutputConfig(const JsonObject& body, OrderedJson& chat) {
  if (body.Has("output_format")) chat["response_format"] = ResponseFormat(body.Object("output_format"));
  if (!body.Has("output_config")) return;
  const JsonObject config = body.Object("output_config");
  config.KnowOnly({"format", "effort"});
  if (const auto effort = config.OptionalText("effort")) chat["reasoning_effort"] = *effort;
  if (!config.Has("format")) return;
  if (body.Has("output_format")) body.Refuse("output_format", "cannot be combined with output_config.format");
  chat["response_format"] = ResponseFormat(config.Object("format"));
}

void AddThinking(const JsonObject& thinking, OrderedJson& chat) {
  thinking.KnowOnly({"type", "display", "budget_tokens"});
  const std::string type = thinking.Text("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled")
    thinking.Refuse("type", "must be enabled, adaptive or disabled");
  chat["enable_thinking"] = type != "disabled";
  if (const OrderedJson* budget = thinking.Find("budget_tokens")) {
    if (type != "enabled") thinking.Refuse("budget_tokens", "is for thinking that is enabled");
    chat["thinking_token_budget"] = *budget;
  }
  const std::string display = thinking.OptionalText("display").value_or("summarized");
  if (display != "summarized" && display != "omitted") thinking.Refuse("display", "must be summarized or omitted");
  if (display == "omitted") chat["include_reasoning"] = false;
}

}  // namespace

OrderedJson ChatOfMessages(const OrderedJson& json) {
  const JsonObject body(json, "");
  RefuseUnknownInMessage(body);
  OrderedJson chat = OrderedJson::object();
  PassOn(body, chat);
  if (const OrderedJson* most = body.Find("max_tokens")) chat["max_tokens"] = *most;
  for (const char* name : {"service_tier", "user_profile_id"}) (void)body.OptionalText(name);
  if (body.Has("metadata")) body.Object("metadata").KnowOnly({"user_id"});
  if (const OrderedJson* stop = body.Find("stop_sequences")) {
    if (!stop->is_array()) body.Refuse("stop_sequences", "must be a list of strings");
    chat["stop"] = *stop;
  }
  chat["messages"] = Messages(body);
  if (body.Has("tools")) chat["tools"] = Tools(body);
  if (body.Has("tool_choice")) AddToolChoice(body.Object("tool_choice"), chat);
  if (body.Has("thinking")) AddThinking(body.Object("thinking"), chat);
  AddOutputConfig(body, chat);
  return chat;
}

GenerateCall ParseMessagesRequest(const RequestBody& body, const RequestLimits& limits, bool generates) {
  OrderedJson chat = ChatOfMessages(body.Exact());
  if (generates && !chat.contains("max_tokens")) JsonObject(chat, "").Refuse("max_tokens", "is missing");
  // Clients ask for as much as the largest model could say; the answer then ends with the context.
  if (const auto it = chat.find("max_tokens");
      it != chat.end() && it->is_number_integer() && *it > limits.max_model_len)
    *it = limits.max_model_len;
  const std::string text = DumpExactJson(chat);
  GenerateCall call = ParseChatRequest(RequestBody(text), limits);
  call.cut_to_context = true;
  return call;
}

}  // namespace quire
