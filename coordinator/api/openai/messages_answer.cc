#include "coordinator/api/openai/messages_answer.h"

#include <string_view>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/openai/chat_choice.h"
#include "coordinator/api/requests/dialect.h"
#include "coordinator/api/requests/responses/sealed_text.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

namespace {

const char* ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 504:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

/// Returns the JSON text with members in their order. Clients send a call back with its members in the order in which
/// the answer had them. If the answer had another order than the model's text, the next prompt would miss the prefix
/// cache.
std::string Dump(const OrderedJson& json) { return DumpExactJson(json); }

OrderedJson ErrorJson(int status, const std::string& message) {
  return {{"type", "error"}, {"error", {{"type", ErrorType(status)}, {"message", message}}}};
}

OrderedJson TextBlock(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}, {"citations", nullptr}};
}

/// Returns a signature that holds the thoughts. Clients send the signature back, and the model sees its thoughts again.
std::string SignatureOf(std::string_view thoughts) {
  const std::string quoted = JsonString(thoughts);
  return SealText(std::string_view(quoted).substr(1, quoted.size() - 2));
}

/// Returns a block of thoughts. `seals`: the block has the thoughts only in its signature, encoded. Otherwise the
/// signature is empty, because this server accepts any thoughts that clients send back.
OrderedJson ThinkingBlock(std::string text, bool seals = false) {
  const std::string signature = seals ? SignatureOf(text) : "";
  return {{"type", "thinking"}, {"thinking", seals ? "" : std::move(text)}, {"signature", signature}};
}

OrderedJson CallBlock(const std::string& id, const std::string& name, OrderedJson input) {
  return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}};
}

/// Returns a call's id as clients of this API expect it ("toolu_..."), unless the model's format needs its own ids.
std::string UseId(const std::string& call_id) {
  constexpr std::string_view kOpenAi = "call_";
  return call_id.starts_with(kOpenAi) ? "toolu_" + call_id.substr(kOpenAi.size()) : call_id;
}

/// Returns the arguments as an object. Arguments that are not a JSON object, because the answer ended within them, are
/// returned under "INVALID_JSON".
OrderedJson InputOf(const std::string& arguments) {
  if (!IsJsonObject(arguments)) return {{"INVALID_JSON", arguments}};
  return ParseExactJson(arguments);
}

/// Returns a server-sent event with the name that its data has as `type`.
std::string Event(const OrderedJson& json) { return NamedEvent(json["type"], Dump(json)); }

constexpr size_t kEventBytes = 4 << 10;  // an event without its texts

std::shared_ptr<PiecewiseText> Parted(PartedText::Part part, size_t estimated_bytes) {
  return std::make_shared<PartedText>(std::vector{std::move(part)}, estimated_bytes);
}

std::shared_ptr<PiecewiseText> Small(std::string text) {
  const size_t bytes = text.size();
  return Parted({[text = std::move(text)] { return text; }, bytes}, bytes);
}

}  // namespace

OrderedJson MessagesUsage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}},
          {"service_tier", "standard"}};
}

void RestateForMessages(const RequestRecord& request, HttpResponse& response) {
  if (!IsOfMessages(request.path)) return;
  const Json body = Json::parse(response.body, nullptr, false);
  if (!body.is_object() || !body.contains("error")) return;
  OrderedJson error = ErrorJson(response.status, body["error"]["message"]);
  error["request_id"] = request.id;
  response.body = Dump(error);
}

/// Returns {"stop_reason", "stop_sequence", "stop_details"}. stop_details would describe refusals and is always null.
/// `called`: the answer has tool calls.
OrderedJson MessagesForm::StopOf(std::optional<FinishReason> reason, const std::string& stop_sequence,
                                 bool called) const {
  OrderedJson stop = {
      {"stop_reason", called ? "tool_use" : "end_turn"}, {"stop_sequence", nullptr}, {"stop_details", nullptr}};
  if (reason == FinishReason::kLength) {
    stop["stop_reason"] = terms_.cut ? "model_context_window_exceeded" : "max_tokens";
  } else if (!stop_sequence.empty()) {
    stop["stop_reason"] = "stop_sequence";
    stop["stop_sequence"] = stop_sequence;
  }
  return stop;
}

OrderedJson MessagesForm::Message(OrderedJson content, const OrderedJson& ending, const Usage& usage) const {
  OrderedJson message = {
      {"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", model_}, {"content", std::move(content)}};
  message.update(ending);
  message["usage"] = MessagesUsage(usage);
  TellEdits(message);
  return message;
}

void MessagesForm::TellEdits(OrderedJson& json) const {
  if (!terms_.applied_edits.is_null()) json["context_management"] = {{"applied_edits", terms_.applied_edits}};
}

std::shared_ptr<PiecewiseText> MessagesForm::Whole(AnswerChoice choice, const Usage& usage) {
  size_t bytes = choice.text.size() + (terms_.seals_thoughts ? 2 : 1) * choice.reasoning.size();
  for (const AnswerCall& call : choice.calls) bytes += call.name.size() + call.arguments.size();
  auto message = [form = *this, usage, choice = std::move(choice)] {
    OrderedJson content = OrderedJson::array();
    if (!choice.reasoning.empty()) content.push_back(ThinkingBlock(choice.reasoning, form.terms_.seals_thoughts));
    if (!choice.text.empty()) content.push_back(TextBlock(choice.text));
    for (const AnswerCall& call : choice.calls)
      content.push_back(CallBlock(UseId(call.id), call.name, InputOf(call.arguments)));
    const OrderedJson stop = form.StopOf(choice.finished, choice.stop_sequence, !choice.calls.empty());
    return Dump(form.Message(std::move(content), stop, usage));
  };
  return Parted({std::move(message), kEventBytes + (1 + kEscapedBytes) * bytes}, bytes);
}

std::shared_ptr<PiecewiseText> MessagesForm::Opening(const Usage& usage) {
  const OrderedJson unknown = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}, {"stop_details", nullptr}};
  return Small(Event({{"type", "message_start"}, {"message", Message(OrderedJson::array(), unknown, usage)}}) + Ping());
}

std::string MessagesForm::Open(AnswerPart::Kind kind, OrderedJson block) {
  std::string text = Close();
  open_ = kind;
  return text + Event({{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(block)}});
}

std::string MessagesForm::Close() {
  if (!open_) return "";
  std::string signature;
  if (open_ == AnswerPart::kReasoning && terms_.seals_thoughts) {
    const OrderedJson delta = {{"type", "signature_delta"}, {"signature", SignatureOf(std::exchange(thoughts_, {}))}};
    signature = Event({{"type", "content_block_delta"}, {"index", index_}, {"delta", delta}});
  }
  open_.reset();
  return signature + Event({{"type", "content_block_stop"}, {"index", index_++}});
}

std::string MessagesForm::DeltaOf(const AnswerPart& part) {
  std::string events;
  OrderedJson delta;
  switch (part.kind) {
    case AnswerPart::kContent:
      if (open_ != part.kind) events = Open(part.kind, TextBlock(""));
      delta = {{"type", "text_delta"}, {"text", part.text}};
      break;
    case AnswerPart::kReasoning:
      if (open_ != part.kind) events = Open(part.kind, ThinkingBlock(""));
      if (terms_.seals_thoughts) {
        thoughts_ += part.text;
        return events;
      }
      delta = {{"type", "thinking_delta"}, {"thinking", part.text}};
      break;
    case AnswerPart::kCall: {
      called_ = true;
      const std::string id = UseId(ToolCallId(terms_.calls, id_.substr(id_.find('_') + 1), 0, part.call));
      return Open(part.kind, CallBlock(id, part.text, OrderedJson::object()));
    }
    case AnswerPart::kArguments:
      delta = {{"type", "input_json_delta"}, {"partial_json", part.text}};
      break;
    case AnswerPart::kBroken:
      return "";
  }
  return events + Event({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
}

std::string MessagesForm::Delta(const AnswerParts& parts, const CallEvent& event) {
  std::string text;
  for (const AnswerPart& part : parts) text += DeltaOf(part);
  if (event.finished) stop_ = StopOf(event.finished, event.stop_sequence, called_);
  return text;
}

std::shared_ptr<PiecewiseText> MessagesForm::Ending(const Usage& usage) {
  std::string text = Close();
  OrderedJson delta = {{"type", "message_delta"}, {"delta", stop_}, {"usage", MessagesUsage(usage)}};
  TellEdits(delta);
  text += Event(delta);
  text += Event({{"type", "message_stop"}});
  return Small(std::move(text));
}

std::shared_ptr<PiecewiseText> MessagesForm::Failure(const CallEvent& event) {
  return Small(Event(ErrorJson(event.error_status, event.error)));
}

std::string MessagesForm::Ping() const { return Event({{"type", "ping"}}); }

}  // namespace quire
