#pragma once

#include <memory>
#include <string>

#include "coordinator/api/answer_form.h"
#include "coordinator/api/http_types.h"

namespace quire {

/// Answers in the form of Anthropic's Messages API.
class MessagesForm : public AnswerForm {
 public:
  /// cut: the answer may be shorter than was asked for, because the context ends before.
  MessagesForm(std::string id, std::string model, bool cut) : id_(std::move(id)), model_(std::move(model)), cut_(cut) {}

  std::shared_ptr<PiecewiseText> Whole(AnswerChoice choice, const Usage& usage) override;
  std::string Opening(const Usage& usage) override;
  std::string Delta(const GenerationEvent& event) override;
  std::shared_ptr<PiecewiseText> Ending(const Usage& usage) override;
  std::string Failure(const GenerationEvent& event) override;
  std::string Ping() const override;

 private:
  Json Message(Json content, const Json& ending, const Usage& usage) const;
  Json StopOf(std::optional<FinishReason> reason, const std::string& stop_sequence) const;

  std::string id_, model_;
  bool cut_;
  bool in_block_ = false;  // of a stream: a content block is open
  Json stop_;              // of a stream: how the answer ended
};

/// Input tokens do not count those that came from the cache.
Json MessagesUsage(const Usage& usage);

/// An error in OpenAI's form (ErrorResponse) is told as clients of the Messages API know it, if the request was of one.
void RestateForMessages(const RequestRecord& request, HttpResponse& response);

}  // namespace quire
