#pragma once

#include <memory>
#include <optional>
#include <string>

#include "coordinator/api/http/http_types.h"
#include "coordinator/api/openai/answer_form.h"

namespace quire {

/// Answers in the form of Anthropic's Messages API: blocks of thoughts, of text, and of calls of tools.
class MessagesForm : public AnswerForm {
 public:
  struct Terms {
    bool cut = false;                      // the answer may be shorter than was asked for: the context ends before
    ToolFormat calls = ToolFormat::kNone;  // how models of this format want ids of calls
    OrderedJson applied_edits;             // of the conversation; null: nobody asked for any
  };
  MessagesForm(std::string id, std::string model, Terms terms)
      : id_(std::move(id)), model_(std::move(model)), terms_(std::move(terms)) {}

  std::shared_ptr<PiecewiseText> Whole(AnswerChoice choice, const Usage& usage) override;
  std::shared_ptr<PiecewiseText> Opening(const Usage& usage) override;
  std::string Delta(const AnswerParts& parts, const CallEvent& event) override;
  std::shared_ptr<PiecewiseText> Ending(const Usage& usage) override;
  std::shared_ptr<PiecewiseText> Failure(const CallEvent& event) override;
  std::string Ping() const override;

 private:
  OrderedJson Message(OrderedJson content, const OrderedJson& ending, const Usage& usage) const;
  void TellEdits(OrderedJson& json) const;
  OrderedJson StopOf(std::optional<FinishReason> reason, const std::string& stop_sequence, bool called) const;
  std::string DeltaOf(const AnswerPart& part);
  std::string Open(AnswerPart::Kind kind, OrderedJson block);
  std::string Close();

  std::string id_, model_;
  Terms terms_;
  // Where a stream is.
  std::optional<AnswerPart::Kind> open_;  // what the block that is open holds
  int index_ = 0;                         // of that block, or of the next
  bool called_ = false;
  OrderedJson stop_;  // how the answer ended
};

/// Input tokens do not count those that came from the cache.
OrderedJson MessagesUsage(const Usage& usage);

/// An error in OpenAI's form (ErrorResponse) is told as clients of the Messages API know it, if the request was of one.
void RestateForMessages(const RequestRecord& request, HttpResponse& response);

}  // namespace quire
