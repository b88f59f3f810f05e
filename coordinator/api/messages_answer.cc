#include "coordinator/api/messages_answer.h"

#include <utility>

#include "coordinator/api/dialect.h"

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

Json ErrorJson(int status, const std::string& message) {
  return {{"type", "error"}, {"error", {{"type", ErrorType(status)}, {"message", message}}}};
}

Json TextBlock(std::string text) { return {{"type", "text"}, {"text", std::move(text)}, {"citations", nullptr}}; }

/// Every event says in its data, too, what it is.
std::string Event(const Json& json) { return NamedEvent(json["type"], DumpJson(json)); }

}  // namespace

Json MessagesUsage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens},
          {"service_tier", "standard"}};
}

void RestateForMessages(const RequestRecord& request, HttpResponse& response) {
  if (!IsOfMessages(request.path)) return;
  const Json body = Json::parse(response.body, nullptr, false);
  if (!body.is_object() || !body.contains("error")) return;
  Json error = ErrorJson(response.status, body["error"]["message"]);
  error["request_id"] = request.id;
  response.body = DumpJson(error);
}

/// {"stop_reason", "stop_sequence"}
Json MessagesForm::StopOf(std::optional<FinishReason> reason, const std::string& stop_sequence) const {
  Json stop = {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}};
  if (reason == FinishReason::kLength) {
    stop["stop_reason"] = cut_ ? "model_context_window_exceeded" : "max_tokens";
  } else if (!stop_sequence.empty()) {
    stop = {{"stop_reason", "stop_sequence"}, {"stop_sequence", stop_sequence}};
  }
  return stop;
}

Json MessagesForm::Message(Json content, const Json& ending, const Usage& usage) const {
  Json message = {{"id", id_},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", model_},
                  {"content", std::move(content)},
                  {"usage", MessagesUsage(usage)}};
  message.update(ending);
  return message;
}

std::shared_ptr<PiecewiseText> MessagesForm::Whole(AnswerChoice choice, const Usage& usage) {
  const size_t bytes = choice.text.size();
  auto message = [form = *this, usage, choice = std::move(choice)] {
    Json content = Json::array();
    if (!choice.text.empty()) content.push_back(TextBlock(choice.text));
    return DumpJson(form.Message(std::move(content), form.StopOf(choice.finished, choice.stop_sequence), usage));
  };
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{std::move(message)}, bytes);
}

std::string MessagesForm::Opening(const Usage& usage) {
  const Json unknown = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  return Event({{"type", "message_start"}, {"message", Message(Json::array(), unknown, usage)}}) + Ping();
}

std::string MessagesForm::Delta(const GenerationEvent& event) {
  std::string text;
  if (!event.text.empty()) {
    if (!std::exchange(in_block_, true))
      text += Event({{"type", "content_block_start"}, {"index", 0}, {"content_block", TextBlock("")}});
    text += Event(
        {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", event.text}}}});
  }
  if (event.finished) stop_ = StopOf(event.finished, event.stop_sequence);
  return text;
}

std::shared_ptr<PiecewiseText> MessagesForm::Ending(const Usage& usage) {
  std::string text;
  if (in_block_) text += Event({{"type", "content_block_stop"}, {"index", 0}});
  text += Event({{"type", "message_delta"}, {"delta", stop_}, {"usage", MessagesUsage(usage)}});
  text += Event({{"type", "message_stop"}});
  const size_t bytes = text.size();
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{[text = std::move(text)] { return text; }}, bytes);
}

std::string MessagesForm::Failure(const GenerationEvent& event) {
  return Event(ErrorJson(event.error_status, event.error));
}

std::string MessagesForm::Ping() const { return Event({{"type", "ping"}}); }

}  // namespace quire
