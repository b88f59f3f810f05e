#pragma once

#include <string>
#include <vector>

#include "coordinator/api/http/piecewise_text.h"
#include "coordinator/api/openai/openai_response.h"

namespace quire {

/// The JSON text of an answer in OpenAI's form that is not streamed, made piece by piece from compact records, however
/// many choices and log-probabilities it has.
class WholeAnswer : public PiecewiseText {
 public:
  WholeAnswer(ResponseBuilder builder, std::vector<AnswerChoice> choices, bool with_logprobs, const Usage& usage);

  std::string Next(size_t bytes) override;
  bool done() const override { return stage_ == Stage::kDone; }
  size_t estimated_bytes() const override;
  size_t most_bytes() const override;

 private:
  enum class Stage { kOpening, kChoice, kList, kPrompt, kDone };
  void BeginChoice(std::string& out);
  void Continue(std::string& out);
  void EndChoice(std::string& out);
  void CloseChoice(std::string& out);
  void End(std::string& out);
  bool ListsPrompt() const { return prompt_ != nullptr && prompt_->num_listed_top >= 0; }
  void ContinuePrompt(std::string& out);

  ResponseBuilder builder_;
  std::vector<AnswerChoice> choices_;  // those that are done are empty
  bool with_logprobs_;
  std::shared_ptr<const AnswerPrompt> prompt_;  // of the choice that was begun last
  std::string envelope_;                        // of the answer, without its opening brace
  Stage stage_ = Stage::kOpening;
  size_t choice_ = 0, list_ = 0, token_ = 0;  // where the text goes on
};

}  // namespace quire
