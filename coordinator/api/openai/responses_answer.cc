#include "coordinator/api/openai/responses_answer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "coordinator/api/openai/chat_choice.h"
#include "coordinator/api/openai/response_output.h"

namespace quire {

namespace {

constexpr size_t kObjectBytes = 1 << 10;  // bytes of an event or an item, without texts and repeated parts

Json UsageOfResponses(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

/// The state from which all texts of an answer are made.
struct ResponsesForm::Answer {
  Head head;
  ResponseTerms terms;
  ToolFormat calls;
  Keep keep;
  std::vector<OutputItem> items;
  std::optional<FinishReason> finished;
  int sequence_number = 0;  // number of the next event
  bool item_open = false;   // a stream began the last item and has not ended it

  std::string_view Unique() const { return std::string_view(head.id).substr(head.id.find('_') + 1); }
  const char* Status() const { return finished == FinishReason::kLength ? "incomplete" : "completed"; }

  OutputItem& AddItem(const char* prefix, AnswerPart::Kind kind) {
    OutputItem& item = items.emplace_back();
    item.kind = kind;
    item.id = fmt::format("{}_{}{:02x}", prefix, Unique(), items.size() - 1);
    item.seals = terms.seals && kind == AnswerPart::kReasoning;
    return item;
  }
  OutputItem& AddItem(AnswerPart::Kind kind) { return AddItem(kind == AnswerPart::kReasoning ? "rs" : "msg", kind); }
  OutputItem& AddCall(const std::string& name, std::string call_id) {
    static constexpr const char* kPrefixes[] = {"fc", "ctc", "tsc"};
    const auto known = terms.tools.find(name);
    const ResponseTool tool =
        known == terms.tools.end() ? ResponseTool{ResponseTool::kFunction, name, ""} : known->second;
    OutputItem& item = AddItem(kPrefixes[tool.kind], AnswerPart::kCall);
    item.name = name;
    item.tool = tool;
    item.call_id = std::move(call_id);
    return item;
  }
  size_t Bytes() const {
    size_t bytes = 0;
    for (const OutputItem& item : items) bytes += item.text.capacity();
    return bytes;
  }

  /// Returns the response object. The object has items only when the answer has ended.
  std::string Response(const char* status, const Json& usage, const Json& error) const {
    const bool over = finished.has_value() && error.is_null();
    std::string output;
    for (const OutputItem& item : items) {
      if (!over) break;
      // If the answer was cut off, its last item is incomplete.
      if (!output.empty()) output += ',';
      output += item.ToJson(&item == &items.back() ? status : "completed");
    }
    const bool cut = std::string_view(status) == "incomplete";
    return fmt::format(
        R"({{"id":"{}","object":"response","created_at":{},"status":"{}","error":{},"incomplete_details":{},)"
        R"("model":{},"output":[{}],"usage":{},"store":{},{}}})",
        head.id, head.created_at, status, DumpJson(error), cut ? R"({"reason":"max_output_tokens"})" : "null",
        QuotedJson(head.model), output, DumpJson(usage), terms.store, terms.settings);
  }

  /// Returns the most bytes of the response object when `to_come` bytes of texts are still to be escaped.
  size_t MostBytes(size_t to_come = 0) const {
    const size_t copies = terms.seals ? 4 : 2;  // sealed text is a third longer
    return kObjectBytes + terms.settings.size() + copies * (Bytes() + kEscapedBytes * to_come) +
           kObjectBytes * items.size();
  }

  /// Returns the whole answer, and stores the answer if the request asks for that. Moves members out of `terms`.
  std::string Finish(const Usage& usage) {
    std::string response = Kept(usage);
    std::string().swap(terms.settings);
    return response;
  }
  std::string Kept(const Usage& usage) {
    std::string response = Response(Status(), UsageOfResponses(usage), nullptr);
    if (!terms.store) return response;
    std::string conversation = std::move(terms.conversation);
    conversation.back() = ',';  // the answer follows in the list
    conversation += AsChatMessage(items) + "]";
    if (keep({response, std::move(conversation), std::move(terms.input)})) return response;
    terms.store = false;
    return Response(Status(), UsageOfResponses(usage), nullptr);
  }

  std::string Event(const std::string& type, const std::string& members) {
    return NamedEvent(type,
                      fmt::format(R"({{"type":"{}","sequence_number":{},{}}})", type, sequence_number++, members));
  }
  /// Returns an event about the last item. `members`: further members of the event, as JSON text.
  std::string InnerEvent(const std::string& type, const std::string& members) {
    const OutputItem& item = items.back();
    return Event(type, fmt::format(R"("item_id":"{}","output_index":{},{}{})", item.id, items.size() - 1,
                                   item.has_part() ? R"("content_index":0,)" : "", members));
  }
  std::string ItemEvent(const std::string& type, const std::string& item) {
    return Event(type, fmt::format(R"("output_index":{},"item":{})", items.size() - 1, item));
  }

  std::string Open() {
    item_open = true;
    const OutputItem& item = items.back();
    std::string events = ItemEvent("response.output_item.added", item.ToJson("in_progress", true));
    if (item.has_part()) events += InnerEvent("response.content_part.added", R"("part":)" + item.Part(""));
    return events;
  }

  std::string Close(const char* status) {
    if (!std::exchange(item_open, false)) return "";
    const OutputItem& item = items.back();
    if (!item.has_part()) {
      std::string events = CloseCall();  // first: events are numbered in the order of their making
      return events + ItemEvent("response.output_item.done", item.ToJson(status));
    }
    const std::string done = std::string(item.EventName()) + ".done";
    const char* logprobs = item.kind == AnswerPart::kContent ? R"("logprobs":[],)" : "";
    std::string events = InnerEvent(done, fmt::format(R"({}"text":"{}")", logprobs, item.text));
    events += InnerEvent("response.content_part.done", R"("part":)" + item.Part(item.text));
    return events + ItemEvent("response.output_item.done", item.ToJson(status));
  }

  std::string CloseCall() {
    const OutputItem& item = items.back();
    if (item.EventName() == nullptr) return "";
    const std::string name = item.EventName();
    if (item.streams())
      return InnerEvent(name + ".done",
                        fmt::format(R"("name":{},"arguments":"{}")", QuotedJson(item.tool.name), item.text));
    const std::string input = item.CustomInput();
    std::string events = InnerEvent(name + ".delta", R"("delta":")" + input + '"');
    return events + InnerEvent(name + ".done", R"("input":")" + input + '"');
  }

  std::string Append(const AnswerPart& part) {
    std::string events;
    if (part.kind == AnswerPart::kBroken) return events;
    if (part.kind == AnswerPart::kCall) {
      events = Close("completed");
      AddCall(part.text, ToolCallId(calls, Unique(), 0, part.call));
      return events + Open();
    }
    if (part.kind != AnswerPart::kArguments && (!item_open || items.back().kind != part.kind)) {
      events = Close("completed");
      AddItem(part.kind);
      events += Open();
    }
    const std::string said = EscapedJson(part.text);
    items.back().text += said;
    if (!items.back().streams()) return events;
    const char* logprobs = part.kind == AnswerPart::kContent ? R"("logprobs":[],)" : "";
    return events + InnerEvent(std::string(items.back().EventName()) + ".delta",
                               fmt::format(R"({}"delta":"{}")", logprobs, said));
  }
};

ResponsesForm::ResponsesForm(Head head, ResponseTerms terms, ToolFormat calls, Keep keep)
    : answer_(std::make_shared<Answer>()) {
  answer_->head = std::move(head);
  answer_->terms = std::move(terms);
  answer_->calls = calls;
  answer_->keep = std::move(keep);
}

ResponsesForm::~ResponsesForm() = default;

int64_t ResponsesForm::held_bytes() const { return static_cast<int64_t>(answer_->Bytes()); }
int64_t ResponsesForm::repeated_bytes() const { return answer_->terms.bytes(); }

std::shared_ptr<PiecewiseText> ResponsesForm::Whole(AnswerChoice choice, const Usage& usage) {
  answer_->finished = choice.finished;
  size_t texts = choice.text.size() + choice.reasoning.size();
  for (const AnswerCall& call : choice.calls) texts += kObjectBytes + call.arguments.size();
  auto whole = [answer = answer_, usage, choice = std::move(choice)] {
    if (!choice.reasoning.empty()) answer->AddItem(AnswerPart::kReasoning).text = EscapedJson(choice.reasoning);
    if (!choice.text.empty() || (choice.calls.empty() && choice.reasoning.empty()))
      answer->AddItem(AnswerPart::kContent).text = EscapedJson(choice.text);
    for (const AnswerCall& call : choice.calls) answer->AddCall(call.name, call.id).text = EscapedJson(call.arguments);
    return answer->Finish(usage);
  };
  const size_t bytes = texts + static_cast<size_t>(answer_->terms.bytes());
  const size_t most = answer_->MostBytes(texts);
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{{std::move(whole), most}}, bytes);
}

std::shared_ptr<PiecewiseText> ResponsesForm::Opening(const Usage&) {
  std::vector<PartedText::Part> events;
  for (const char* type : {"response.created", "response.in_progress"}) {
    auto event = [answer = answer_, type] {
      return answer->Event(type, R"("response":)" + answer->Response("in_progress", nullptr, nullptr));
    };
    events.push_back({std::move(event), answer_->MostBytes()});
  }
  return std::make_shared<PartedText>(std::move(events), 2 * answer_->MostBytes());
}

std::string ResponsesForm::Delta(const AnswerParts& parts, const CallEvent& event) {
  std::string text;
  for (const AnswerPart& part : parts) text += answer_->Append(part);
  if (event.finished) answer_->finished = event.finished;
  return text;
}

/// Returns the last events of a stream. If the answer has no items, it gets one message item without text.
std::shared_ptr<PiecewiseText> ResponsesForm::Ending(const Usage& usage) {
  auto last_item = [answer = answer_] {
    std::string text;
    if (answer->items.empty()) {
      answer->AddItem(AnswerPart::kContent);
      text = answer->Open();
    }
    return text + answer->Close(answer->Status());
  };
  auto finished = [answer = answer_, usage] {
    const std::string type = std::string("response.") + answer->Status();
    return answer->Event(type, R"("response":)" + answer->Finish(usage));
  };
  const size_t bytes = 4 * answer_->Bytes() + static_cast<size_t>(answer_->terms.bytes());
  const size_t of_item = 4 * kObjectBytes + (answer_->terms.seals ? 5 : 3) * answer_->Bytes();
  return std::make_shared<PartedText>(
      std::vector<PartedText::Part>{{last_item, of_item}, {finished, answer_->MostBytes() + kObjectBytes}}, bytes);
}

std::shared_ptr<PiecewiseText> ResponsesForm::Failure(const CallEvent& event) {
  auto failed = [answer = answer_, error = Json{{"code", "server_error"}, {"message", event.error}}] {
    return answer->Event("response.failed", R"("response":)" + answer->Response("failed", nullptr, error));
  };
  const size_t most = answer_->MostBytes() + kEscapedBytes * event.error.size();
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{{std::move(failed), most}}, most);
}

}  // namespace quire
