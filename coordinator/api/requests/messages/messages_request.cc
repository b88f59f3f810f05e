#include "coordinator/api/requests/messages/messages_request.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/messages/messages_tools.h"
#include "coordinator/api/requests/messages/messages_turns.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/told_once.h"

namespace quire {

namespace {

/// Refuses fields that this server does not support.
void RefuseByName(const JsonObject& body) {
  if (body.Has("compaction"))
    body.Refuse("compaction", "is not supported by this server; leave it out and ask for a summary in a message");
  if (body.Has("thread"))
    body.Refuse("thread", "is not supported by this server, which keeps no conversations; send all messages");
  const OrderedJson* container = body.Find("container");
  if (container == nullptr) return;
  if (!container->is_string() && !container->is_object()) body.Refuse("container", "must be a string or an object");
  if (container->is_object() && !container->value("skills", OrderedJson::array()).empty())
    body.Refuse("container", "must have no skills: this server runs no code");
  TellLeftOut("container of Messages: this server runs no code");
}

void CheckPassedOver(const JsonObject& body) {
  for (const char* name : {"service_tier", "user_profile_id", "inference_geo", "speed"}) (void)body.OptionalText(name);
  if (body.Has("metadata")) body.Object("metadata").KnowOnly({"user_id"});
}

/// Translates {"type": "json_schema", "schema": ...} into a response_format.
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
  config.KnowOnly({"format", "effort", "task_budget"});
  if (const auto effort = config.OptionalText("effort")) chat["reasoning_effort"] = *effort;
  if (config.Has("task_budget")) TellLeftOut("output_config.task_budget of Messages: no model is told of budgets");
  if (!config.Has("format")) return;
  if (body.Has("output_format"))
    body.Refuse("output_format", "cannot be combined with output_config.format; leave out one");
  chat["response_format"] = ResponseFormat(config.Object("format"));
}

/// Sets reasoning_effort from the latest message that names an effort. Efforts above "high" become "high", the highest
/// effort that templates know.
void AddEffort(const MessagesTurns& turns, MessagesRequest& request) {
  OrderedJson& chat = request.chat;
  if (turns.effort) chat["reasoning_effort"] = *turns.effort;
  if (!chat.contains("reasoning_effort")) return;
  if (chat["reasoning_effort"] == "xhigh" || chat["reasoning_effort"] == "max") chat["reasoning_effort"] = "high";
  request.hints.emplace_back("reasoning_effort");
}

/// Translates `thinking` into fields of the chat request. after_tools: the last message has results of tools.
void AddThinking(const JsonObject& thinking, bool after_tools, MessagesRequest& request) {
  thinking.KnowOnly({"type", "display", "budget_tokens", "block_binding"});
  const std::string type = thinking.Text("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled" && type != "between_tools")
    thinking.Refuse("type", "must be enabled, adaptive, between_tools or disabled");
  request.chat["enable_thinking"] = type != "disabled" && (type != "between_tools" || after_tools);
  // With the types "adaptive" and "between_tools" the model decides whether to think, so a template that does not read
  // enable_thinking may ignore it.
  if (type == "adaptive" || type == "between_tools") request.hints.emplace_back("enable_thinking");
  if (const OrderedJson* budget = thinking.Find("budget_tokens")) {
    if (type != "enabled") thinking.Refuse("budget_tokens", "is for thinking that is enabled; leave it out");
    request.chat["thinking_token_budget"] = *budget;
  }
  const std::string display = thinking.OptionalText("display").value_or("summarized");
  if (display != "summarized" && display != "updates" && display != "omitted")
    thinking.Refuse("display", "must be summarized, updates or omitted");
  request.seals_thoughts = display == "omitted";
}

/// Makes the answer continue the conversation's last message. Throws ApiError if the answer must have a format.
void BeginAnswer(const JsonObject& body, OrderedJson& chat) {
  if (chat.contains("response_format"))
    body.Refuse("messages", "must end with a turn of the user where a format of the answer is asked for");
  chat["continue_final_message"] = true;
}

}  // namespace

MessagesRequest ChatOfMessages(const OrderedJson& json, const RequestLimits& limits) {
  const JsonObject body(json, "");
  RefuseByName(body);
  CheckPassedOver(body);
  MessagesRequest request{.chat = OrderedJson::object(), .shown = nullptr};
  OrderedJson& chat = request.chat;
  PassOn(body, chat);
  if (const OrderedJson* most = body.Find("max_tokens")) chat["max_tokens"] = *most;
  if (const OrderedJson* stop = body.Find("stop_sequences")) {
    if (!stop->is_array()) body.Refuse("stop_sequences", "must be a list of strings");
    chat["stop"] = *stop;
  }
  MessagesTools tools;
  tools.Read(body);
  MessagesTurns turns = ReadMessagesTurns(body, tools);
  chat["messages"] = std::move(turns.messages);
  if (body.Has("tool_choice")) tools.AddChoice(body.Object("tool_choice"), chat);
  if (OrderedJson callable = tools.Callable(); !callable.empty()) {
    request.shown = tools.Shown();
    chat["tools"] = std::move(callable);
  }
  if (body.Has("thinking")) AddThinking(body.Object("thinking"), turns.after_tools, request);
  AddOutputConfig(body, chat);
  AddEffort(turns, request);
  if (turns.begins_answer) BeginAnswer(body, chat);
  if (body.Has("context_management"))
    request.edits = ReadContextEdits(body.Object("context_management"), limits.max_model_len);
  return request;
}

GenerateCall ParseMessagesRequest(const RequestBody& body, const RequestLimits& limits, bool generates) {
  const JsonFields fields(body.fields());  // throws unless the body is an object
  if (limits.unknown != nullptr) limits.unknown->Check(body.fields(), FieldsOf::kMessages);
  MessagesRequest request = ChatOfMessages(body.Exact(), limits);
  OrderedJson& chat = request.chat;
  if (generates) RefuseNoTokens(JsonObject(chat, ""), "max_tokens");
  if (generates && !chat.contains("max_tokens")) JsonObject(chat, "").Refuse("max_tokens", "is missing");
  // Some clients ask for as many tokens as the largest model could write. So a larger max_tokens is lowered to the
  // length of the context, and the answer ends where the context is full.
  if (const auto it = chat.find("max_tokens");
      it != chat.end() && it->is_number_integer() && *it > limits.max_model_len)
    *it = limits.max_model_len;
  const std::string text = DumpExactJson(chat);
  GenerateCall call = ParseChatRequest(RequestBody(text), limits);
  if (call.tools.active()) call.conversation.tools = std::move(request.shown);
  call.cut_to_context = true;
  call.hints = std::move(request.hints);
  call.context_edits = std::move(request.edits);
  call.seals_thoughts = request.seals_thoughts;
  return call;
}

}  // namespace quire
