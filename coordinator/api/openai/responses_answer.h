#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/api/openai/answer_form.h"
#include "coordinator/api/openai/response_store.h"
#include "coordinator/api/requests/responses/responses_request.h"

namespace quire {

/// The answer in the form of OpenAI's Responses API: items of reasoning, messages and calls of tools.
class ResponsesForm : public AnswerForm {
 public:
  /// Stores a whole answer with its conversation and its request's items. Returns false when the answer is too large to
  /// be stored.
  using Keep = std::function<bool(StoredResponse)>;
  struct Head {
    std::string id, model;
    std::time_t created_at = 0;
  };
  /// `calls`: the format of tool calls that the calls' ids must suit.
  ResponsesForm(Head head, ResponseTerms terms, ToolFormat calls, Keep keep);
  ~ResponsesForm() override;

  std::shared_ptr<PiecewiseText> Whole(AnswerChoice choice, const Usage& usage) override;
  std::shared_ptr<PiecewiseText> Opening(const Usage& usage) override;
  std::string Delta(const AnswerParts& parts, const CallEvent& event) override;
  std::shared_ptr<PiecewiseText> Ending(const Usage& usage) override;
  std::shared_ptr<PiecewiseText> Failure(const CallEvent& event) override;
  int64_t held_bytes() const override;
  int64_t repeated_bytes() const override;

 private:
  struct Answer;
  std::shared_ptr<Answer> answer_;  // shared with texts that are made on other threads
};

}  // namespace quire
