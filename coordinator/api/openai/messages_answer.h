#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/api/openai/answer_form.h"
#include "coordinator/http/http_types.h"

namespace quire {

/// The answer in the form of Anthropic's Messages API: blocks of thinking, text and tool_use.
class MessagesForm : public AnswerForm {
 public:
  struct Terms {
    bool cut = false;                      // max_tokens was cut to the end of the context
    ToolFormat calls = ToolFormat::kNone;  // the format that the ids of calls must suit
    OrderedJson applied_edits;             // edits of the conversation; null: the request asks for none
    bool seals_thoughts = false;           // thoughts are sent encoded, as signatures without text
  };
  MessagesForm(std::string id, std::string model, Terms terms)
      : id_(std::move(id)), model_(std::move(model)), terms_(std::move(terms)) {}

  std::shared_ptr<PiecewiseText> Whole(AnswerChoice choice, const Usage& usage) override;
  std::shared_ptr<PiecewiseText> Opening(const Usage& usage) override;
  std::string Delta(const AnswerParts& parts, const CallEvent& event) override;
  std::shared_ptr<PiecewiseText> Ending(const Usage& usage) override;
  std::shared_ptr<PiecewiseText> Failure(const CallEvent& event) override;
  std::string Ping() const override;
  int64_t held_bytes() const override { return static_cast<int64_t>(thoughts_.capacity()); }

 private:
  OrderedJson Message(OrderedJson content, const OrderedJson& ending, const Usage& usage) const;
  void TellEdits(OrderedJson& json) const;
  OrderedJson StopOf(std::optional<FinishReason> reason, const std::string& stop_sequence, bool called) const;
  std::string DeltaOf(const AnswerPart& part);
  std::string Open(AnswerPart::Kind kind, OrderedJson block);
  std::string Close();

  std::string id_, model_;
  Terms terms_;
  // The state of a stream.
  std::optional<AnswerPart::Kind> open_;  // kind of the open block
  int index_ = 0;                         // index of the open content block, or of the next block
  bool called_ = false;
  std::string thoughts_;  // thoughts of the open block; stored only where thoughts are sealed
  OrderedJson stop_;      // stop_reason and its fields
};

/// Returns the usage object. Its input_tokens do not include tokens from the cache.
OrderedJson MessagesUsage(const Usage& usage);

/// Rewrites an error of OpenAI's form (ErrorResponse) into Anthropic's form, if the request's path is one of the
/// Messages API.
void RestateForMessages(const RequestRecord& request, HttpResponse& response);

}  // namespace quire
