#include "coordinator/api/requests/responses_request.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/api_error.h"
#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/response_settings.h"

namespace quire {

namespace {

/// Change nothing about the answer of a server that has one class of service, no tools of its own and caches by itself.
constexpr std::string_view kHarmless[] = {"metadata",         "user",
                                          "service_tier",     "safety_identifier",
                                          "prompt_cache_key", "prompt_cache_retention",
                                          "max_tool_calls",   "prompt_cache_options"};
constexpr std::string_view kTranslated[] = {
    "input", "instructions", "max_output_tokens", "previous_response_id", "reasoning", "store",
    "text",  "tools",        "tool_choice",       "parallel_tool_calls",  "stop"};

/// Fields that this server takes with values that ask for nothing.
bool AsksForNothing(std::string_view name, const OrderedJson& value) {
  if (name == "background") return value == false;
  if (name == "truncation") return value == "disabled";
  if (name == "top_logprobs") return value == 0;
  if (name == "stream_options") return value == OrderedJson{{"include_obfuscation", false}} || value.empty();
  // There is no reasoning that is kept from clients, so nothing to give them instead.
  if (name == "include")
    return value.is_array() &&
           std::ranges::all_of(value, [](const OrderedJson& what) { return what == "reasoning.encrypted_content"; });
  return false;
}

void RefuseUnknown(const JsonObject& body) {
  for (const auto& [name, value] : body.value().items()) {
    if (value.is_null() || IsPassedOn(name) || IsIn(name, kHarmless) || IsIn(name, kTranslated)) continue;
    if (!AsksForNothing(name, value)) body.Refuse(name.substr(0, 100), "is not supported by this server");
  }
}

/// The text of a part of a message; other kinds are refused with their name.
std::string PartText(const JsonObject& part) {
  const std::string type = part.Text("type");
  if (type == "refusal") return part.Text("refusal");
  if (type != "input_text" && type != "output_text" && type != "text")
    part.Refuse("type", "is " + type.substr(0, 50) + "; only input_text, output_text and refusal are supported here");
  return part.Text("text");
}

/// Items of one conversation, written as messages of a chat.
class Items {
 public:
  explicit Items(OrderedJson earlier) : messages_(std::move(earlier)) {}

  void AddText(std::string text) { Say("user", std::move(text)); }

  void Add(const JsonObject& item) {
    const std::string type = item.OptionalText("type").value_or("message");
    if (type == "message") return AddMessage(item);
    if (type == "function_call") return AddCall(item);
    if (type == "function_call_output") return AddOutput(item);
    if (type == "reasoning") return AddReasoning(item);
    item.Refuse("type", "is " + type.substr(0, 50) +
                            "; only message, function_call, function_call_output and reasoning are supported here");
  }

  OrderedJson Take() { return std::move(messages_); }

 private:
  OrderedJson& Say(const std::string& role, std::string text) {
    messages_.push_back({{"role", role}, {"content", std::move(text)}});
    if (role == "assistant" && !thoughts_.empty()) messages_.back()["reasoning_content"] = std::exchange(thoughts_, {});
    return messages_.back();
  }

  void AddMessage(const JsonObject& item) {
    item.KnowOnly({"type", "role", "content", "id", "status", "phase"});
    const std::string role = item.Text("role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      item.Refuse("role", "must be user, assistant, system or developer");
    Say(role, item.JoinedText("content", PartText));
  }

  void AddCall(const JsonObject& item) {
    item.KnowOnly({"type", "call_id", "name", "arguments", "id", "status"});
    const bool goes_on = !messages_.empty() && messages_.back()["role"] == "assistant" && thoughts_.empty();
    OrderedJson& message = goes_on ? messages_.back() : Say("assistant", "");
    message["tool_calls"].push_back(
        {{"id", item.Text("call_id")},
         {"type", "function"},
         {"function", {{"name", item.Text("name")}, {"arguments", item.Text("arguments")}}}});
  }

  void AddOutput(const JsonObject& item) {
    item.KnowOnly({"type", "call_id", "output", "id", "status"});
    Say("tool", item.JoinedText("output", PartText))["tool_call_id"] = item.Text("call_id");
  }

  void AddReasoning(const JsonObject& item) {
    item.KnowOnly({"type", "id", "summary", "content", "encrypted_content", "status"});
    if (item.Has("encrypted_content")) item.Refuse("encrypted_content", "is not supported by this server");
    if (!item.Has("content")) return;
    item.ForEach("content", [&](const JsonObject& part) {
      if (part.Text("type") != "reasoning_text") part.Refuse("type", "must be reasoning_text");
      thoughts_ += part.Text("text");
    });
  }

  OrderedJson messages_;
  std::string thoughts_;  // before the assistant's next message
};

OrderedJson Earlier(const JsonObject& body, const FindConversation& find) {
  const auto id = body.OptionalText("previous_response_id");
  return id ? OrderedJson::parse(find(*id)) : OrderedJson::array();
}

/// The conversation without the instructions, which are of this request alone.
OrderedJson WholeConversation(const JsonObject& body, const FindConversation& find) {
  const OrderedJson* input = body.Find("input");
  if (input == nullptr) body.Refuse("input", "is missing");
  Items items(Earlier(body, find));
  if (input->is_string()) {
    items.AddText(input->get<std::string>());
  } else {
    body.ForEach("input", [&](const JsonObject& item) { items.Add(item); });
  }
  OrderedJson messages = items.Take();
  if (messages.empty()) body.Refuse("input", "is empty");
  return messages;
}

OrderedJson OfferedTools(const JsonObject& body) {
  OrderedJson tools = OrderedJson::array();
  body.ForEach("tools", [&](const JsonObject& tool) {
    if (tool.Text("type") != "function") tool.Refuse("type", "must be function: this server has no tools of its own");
    tool.KnowOnly({"type", "name", "description", "parameters", "strict"});
    OrderedJson function = {{"name", tool.Text("name")}};
    if (const auto description = tool.OptionalText("description")) function["description"] = *description;
    if (tool.Has("parameters")) function["parameters"] = tool.Object("parameters").value();
    if (tool.Has("strict")) function["strict"] = tool.Flag("strict", false);
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  });
  return tools;
}

OrderedJson ChosenTool(const JsonObject& body) {
  const OrderedJson& choice = *body.Find("tool_choice");
  if (choice.is_string()) return choice;
  const JsonObject named = body.Object("tool_choice");
  named.KnowOnly({"type", "name"});
  if (named.Text("type") != "function") named.Refuse("type", "must be function");
  return {{"type", "function"}, {"function", {{"name", named.Text("name")}}}};
}

void AddReasoning(const JsonObject& reasoning, OrderedJson& chat) {
  reasoning.KnowOnly({"effort"});
  if (const auto effort = reasoning.OptionalText("effort")) chat["reasoning_effort"] = *effort;
}

/// text.format says in one object what response_format says in two.
void AddTextFormat(const JsonObject& body, OrderedJson& chat) {
  const JsonObject text = body.Object("text");
  text.KnowOnly({"format", "verbosity"});
  if (text.OptionalText("verbosity").value_or("medium") != "medium")
    text.Refuse("verbosity", "is not supported by this server but for medium");
  if (!text.Has("format")) return;
  const JsonObject format = text.Object("format");
  const std::string type = format.Text("type");
  if (type == "json_schema") {
    format.KnowOnly({"type", "name", "description", "schema", "strict"});
    OrderedJson described = format.value();
    described.erase("type");
    chat["response_format"] = {{"type", type}, {"json_schema", std::move(described)}};
  } else if (type == "text" || type == "json_object") {
    format.KnowOnly({"type"});
    chat["response_format"] = {{"type", type}};
  } else {
    format.Refuse("type", "must be text, json_object or json_schema");
  }
}

}  // namespace

ResponsesRequest ChatOfResponses(const OrderedJson& json, const FindConversation& find) {
  const JsonObject body(json, "");
  RefuseUnknown(body);
  CheckRepeated(body);
  ResponsesRequest request;
  OrderedJson& chat = request.chat = OrderedJson::object();
  PassOn(body, chat);
  for (const char* name : {"parallel_tool_calls", "stop"}) {
    if (const OrderedJson* value = body.Find(name)) chat[name] = *value;
  }
  if (const OrderedJson* most = body.Find("max_output_tokens")) chat["max_tokens"] = *most;
  if (body.Has("tools")) chat["tools"] = OfferedTools(body);
  if (body.Has("tool_choice")) chat["tool_choice"] = ChosenTool(body);
  if (body.Has("reasoning")) AddReasoning(body.Object("reasoning"), chat);
  if (body.Has("text")) AddTextFormat(body, chat);
  OrderedJson messages = WholeConversation(body, find);
  request.terms.conversation = DumpExactJson(messages);
  request.terms.store = body.Flag("store", true);
  request.terms.settings = SettingsOf(body);
  if (const auto instructions = body.OptionalText("instructions")) {
    OrderedJson system = {{"role", "system"}, {"content", *instructions}};
    messages.insert(messages.begin(), std::move(system));
  }
  chat["messages"] = std::move(messages);
  return request;
}

GenerateCall ParseResponsesRequest(const RequestBody& body, const RequestLimits& limits, const FindConversation& find,
                                   ResponseTerms& terms) {
  ResponsesRequest request = ChatOfResponses(body.Exact(), find);
  terms = std::move(request.terms);
  const std::string text = DumpExactJson(request.chat);
  return ParseChatRequest(RequestBody(text), limits);
}

}  // namespace quire
