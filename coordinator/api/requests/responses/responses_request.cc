#include "coordinator/api/requests/responses/responses_request.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/known_fields.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/responses/response_settings.h"
#include "coordinator/api/requests/responses_fields.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr size_t kMostShownBytes = 100;

constexpr std::string_view kSealed = "reasoning.encrypted_content";
constexpr std::string_view kLogprobs = "message.output_text.logprobs";  // not supported by this server
constexpr std::string_view kSummaries[] = {"auto", "concise", "detailed"};
constexpr std::string_view kContexts[] = {"auto", "current_turn", "all_turns"};
constexpr std::string_view kVerbosities[] = {"low", "medium", "high"};

void RefuseUnknown(const JsonObject& body) {
  for (const auto& [name, value] : body.value().items()) {
    if (value.is_null() || IsReadByResponses(name) || AsksForNothing(name, value)) continue;
    if (IsPassedOver(name, Json::parse(value.dump()))) continue;
    const bool is_known = IsKnownField(name, FieldsOf::kResponses);
    const std::string remedy = is_known ? "leave it out" : UnknownFieldRemedy(name, FieldsOf::kResponses);
    RefuseUnknownField(name.substr(0, kMostShownBytes), "is not supported by this server; " + remedy);
  }
}

OrderedJson Earlier(const JsonObject& body, const FindKept& find) {
  const auto id = body.OptionalText("previous_response_id");
  return id ? OrderedJson::parse(find(*id, "")) : OrderedJson::array();
}

/// Returns the chat messages of the whole conversation, without the instructions of this request. Sets `own` to the
/// items of this request.
OrderedJson WholeConversation(const JsonObject& body, const FindKept& find, OfferedTools& tools,
                              std::vector<InputItem>& own) {
  const OrderedJson* input = body.Find("input");
  if (input == nullptr) body.Refuse("input", "is missing");
  ResponseItems items(Earlier(body, find), TextBytes(*input), find, tools);
  if (input->is_string()) {
    items.AddText(input->get_ref<const std::string&>());
  } else {
    body.ForEach("input", [&](const JsonObject& item) { items.Add(item); });
  }
  own = items.TakeItems();
  OrderedJson messages = items.Take();
  if (messages.empty()) body.Refuse("input", "is empty: give a text or items");
  return messages;
}

/// Reads `reasoning`. Thoughts are returned whole, never summarised, and the template decides which earlier thoughts it
/// shows. So `summary` and `context` are only checked.
void AddReasoning(const JsonObject& reasoning, OrderedJson& chat) {
  reasoning.KnowOnly({"effort", "summary", "generate_summary", "context"});
  for (const char* name : {"summary", "generate_summary"}) {
    const std::string summary = reasoning.OptionalText(name).value_or("auto");
    if (!IsIn(summary, kSummaries)) reasoning.Refuse(name, "must be auto, concise or detailed");
  }
  const std::string context = reasoning.OptionalText("context").value_or("auto");
  if (!IsIn(context, kContexts)) reasoning.Refuse("context", "must be auto, current_turn or all_turns");
  if (const auto effort = reasoning.OptionalText("effort")) chat["reasoning_effort"] = *effort;
}

/// True when `include` asks for sealed thoughts. Throws ApiError for unknown values and for logprobs. The other known
/// values are about items that this server's answers never have.
bool AsksToSeal(const JsonObject& body) {
  const OrderedJson* include = body.Find("include");
  if (include == nullptr) return false;
  if (!include->is_array()) body.Refuse("include", "must be a list");
  bool seals = false;
  for (size_t i = 0; i < include->size(); ++i) {
    const std::string place = fmt::format("include[{}]", i);
    if (!(*include)[i].is_string()) body.Refuse(place, "must be a string");
    const auto& what = (*include)[i].get_ref<const std::string&>();
    seals = seals || what == kSealed;
    if (!IsKnownInclude(what) || what == kLogprobs)
      body.Refuse(place, "is " + what.substr(0, 50) + ", which is not supported by this server; leave it out");
  }
  return seals;
}

/// Translates text.format into response_format. For a JSON schema, response_format has the members of text.format,
/// except `type`, in an object `json_schema`.
void AddTextFormat(const JsonObject& body, OrderedJson& chat) {
  const JsonObject text = body.Object("text");
  text.KnowOnly({"format", "verbosity"});
  // No served model was trained to obey `verbosity`, so its value is only checked.
  if (!IsIn(text.OptionalText("verbosity").value_or("medium"), kVerbosities))
    text.Refuse("verbosity", "must be low, medium or high");
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

ResponsesRequest ChatOfResponses(const OrderedJson& json, const FindKept& find, const SamplingDefaults& defaults) {
  const JsonObject body(json, "");
  RefuseUnknown(body);
  CheckRepeated(body);
  ResponsesRequest request;
  OrderedJson& chat = request.chat = OrderedJson::object();
  PassOn(body, chat);
  for (const char* name : {"parallel_tool_calls", "stop", "thinking"}) {
    if (const OrderedJson* value = body.Find(name)) chat[name] = *value;
  }
  RefuseNoTokens(body, "max_output_tokens");
  if (const OrderedJson* most = body.Find("max_output_tokens")) chat["max_tokens"] = *most;
  OfferedTools tools;
  if (body.Has("tools")) tools.Add(body, "tools", false);
  if (body.Has("reasoning")) AddReasoning(body.Object("reasoning"), chat);
  if (body.Has("text")) AddTextFormat(body, chat);
  OrderedJson messages = WholeConversation(body, find, tools, request.terms.input);
  if (body.Has("tool_choice")) chat["tool_choice"] = tools.Choose(body);
  if (body.Has("tools") || !tools.chat().empty()) chat["tools"] = tools.chat();
  request.terms.tools = std::move(tools.known());
  request.terms.seals = AsksToSeal(body);
  request.terms.conversation = DumpExactJson(messages);
  request.terms.store = body.Flag("store", true);
  if (!request.terms.store) request.terms.input.clear();
  request.terms.settings = SettingsOf(body, defaults);
  if (const auto instructions = body.OptionalText("instructions")) {
    OrderedJson system = {{"role", "system"}, {"content", *instructions}};
    messages.insert(messages.begin(), std::move(system));
  }
  chat["messages"] = std::move(messages);
  return request;
}

GenerateCall ParseResponsesRequest(const RequestBody& body, const RequestLimits& limits, const FindKept& find,
                                   ResponseTerms& terms) {
  ResponsesRequest request = ChatOfResponses(body.Exact(), find, limits.defaults);
  terms = std::move(request.terms);
  const std::string text = DumpExactJson(request.chat);
  return ParseChatRequest(RequestBody(text), limits);
}

}  // namespace quire
