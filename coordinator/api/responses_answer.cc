#include "coordinator/api/responses_answer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace quire {

namespace {

std::string Quoted(const std::string& text) { return DumpJson(text); }

Json UsageOfResponses(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

/// A part of a message; `text` is quoted.
std::string TextPart(const std::string& text) {
  return R"({"type":"output_text","annotations":[],"logprobs":[],"text":)" + text + "}";
}

}  // namespace

/// All that an answer's texts are made of. JSON is put together as text: settings and answers may be long, and are
/// spelled once.
struct ResponsesForm::Answer {
  Head head;
  ResponseTerms terms;
  Keep keep;
  std::string item_id;
  std::string text;
  std::optional<FinishReason> finished;
  int sequence_number = 0;  // of the next event
  bool item_open = false;   // the stream has begun the message

  const char* Status() const { return finished == FinishReason::kLength ? "incomplete" : "completed"; }

  std::string Item(const char* status, const std::string& parts) const {
    return fmt::format(R"({{"id":"{}","type":"message","role":"assistant","status":"{}","content":[{}]}})", item_id,
                       status, parts);
  }

  /// The response object; output: its items, with commas between them.
  std::string Response(const char* status, const std::string& output, const Json& usage, const Json& error) const {
    const bool cut = std::string_view(status) == "incomplete";
    return fmt::format(
        R"({{"id":"{}","object":"response","created_at":{},"status":"{}","error":{},"incomplete_details":{},)"
        R"("model":{},"output":[{}],"usage":{},"store":{},{}}})",
        head.id, head.created_at, status, DumpJson(error), cut ? R"({"reason":"max_output_tokens"})" : "null",
        Quoted(head.model), output, DumpJson(usage), terms.store, terms.settings);
  }

  /// The whole answer, which is kept if it is to be. quoted: its text.
  std::string Finish(const std::string& quoted, const Usage& usage) {
    const std::string output = Item(Status(), TextPart(quoted));
    std::string response = Response(Status(), output, UsageOfResponses(usage), nullptr);
    if (!terms.store) return response;
    std::string conversation = std::move(terms.conversation);
    conversation.back() = ',';  // the list goes on
    conversation += R"({"role":"assistant","content":)" + quoted + "}]";
    if (keep(response, std::move(conversation))) return response;
    terms.store = false;
    return Response(Status(), output, UsageOfResponses(usage), nullptr);
  }

  std::string Event(const std::string& type, const std::string& members) {
    return NamedEvent(type,
                      fmt::format(R"({{"type":"{}","sequence_number":{},{}}})", type, sequence_number++, members));
  }
  /// An event of the message's text.
  std::string TextEvent(const std::string& type, const std::string& members) {
    return Event(type, fmt::format(R"("item_id":"{}","output_index":0,"content_index":0,{})", item_id, members));
  }
  std::string ItemEvent(const std::string& type, const char* status, const std::string& parts) {
    return Event(type, R"("output_index":0,"item":)" + Item(status, parts));
  }

  /// The first time it is called.
  std::string OpenItem() {
    if (std::exchange(item_open, true)) return "";
    std::string events = ItemEvent("response.output_item.added", "in_progress", "");
    return events + TextEvent("response.content_part.added", R"("part":)" + TextPart(R"("")"));
  }
};

ResponsesForm::ResponsesForm(Head head, ResponseTerms terms, Keep keep)
    : answer_(std::make_shared<Answer>(Answer{std::move(head), std::move(terms), std::move(keep), {}, {}, {}})) {
  answer_->item_id = "msg_" + answer_->head.id.substr(answer_->head.id.find('_') + 1);
}

ResponsesForm::~ResponsesForm() = default;

int64_t ResponsesForm::held_bytes() const { return static_cast<int64_t>(answer_->text.capacity()); }

std::shared_ptr<PiecewiseText> ResponsesForm::Whole(AnswerChoice choice, const Usage& usage) {
  answer_->text = std::move(choice.text);
  answer_->finished = choice.finished;
  const size_t bytes = answer_->text.size() + static_cast<size_t>(answer_->terms.bytes());
  auto whole = [answer = answer_, usage] { return answer->Finish(Quoted(answer->text), usage); };
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{std::move(whole)}, bytes);
}

std::string ResponsesForm::Opening(const Usage&) {
  const std::string response = R"("response":)" + answer_->Response("in_progress", "", nullptr, nullptr);
  std::string text = answer_->Event("response.created", response);
  return text + answer_->Event("response.in_progress", response);
}

std::string ResponsesForm::Delta(const GenerationEvent& event) {
  if (event.finished) answer_->finished = event.finished;
  if (event.text.empty()) return "";
  answer_->text += event.text;
  std::string text = answer_->OpenItem();
  return text + answer_->TextEvent("response.output_text.delta", R"("logprobs":[],"delta":)" + Quoted(event.text));
}

/// Four events repeat the text: each is made when the one before was taken.
std::shared_ptr<PiecewiseText> ResponsesForm::Ending(const Usage& usage) {
  const auto quoted = std::make_shared<std::string>();
  auto text_done = [answer = answer_, quoted] {
    *quoted = Quoted(answer->text);
    std::string text = answer->OpenItem();
    return text + answer->TextEvent("response.output_text.done", R"("logprobs":[],"text":)" + *quoted);
  };
  auto part_done = [answer = answer_, quoted] {
    return answer->TextEvent("response.content_part.done", R"("part":)" + TextPart(*quoted));
  };
  auto item_done = [answer = answer_, quoted] {
    return answer->ItemEvent("response.output_item.done", answer->Status(), TextPart(*quoted));
  };
  auto finished = [answer = answer_, quoted, usage] {
    const std::string type = std::string("response.") + answer->Status();
    return answer->Event(type, R"("response":)" + answer->Finish(*quoted, usage));
  };
  const size_t bytes = 4 * answer_->text.size() + static_cast<size_t>(answer_->terms.bytes());
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{text_done, part_done, item_done, finished}, bytes);
}

std::string ResponsesForm::Failure(const GenerationEvent& event) {
  const Json error = {{"code", "server_error"}, {"message", event.error}};
  return answer_->Event("response.failed", R"("response":)" + answer_->Response("failed", "", nullptr, error));
}

}  // namespace quire
