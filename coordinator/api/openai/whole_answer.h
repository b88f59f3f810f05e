#pragma once

#include <string>
#include <vector>

#include "coordinator/api/openai/openai_response.h"
#include "coordinator/http/piecewise_text.h"

namespace quire {

/// The JSON text of a whole answer in OpenAI's form, made piece by piece from compact records, however many choices and
/// log-probabilities it has.
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
  std::vector<AnswerChoice> choices_;  // a choice is emptied once its text is made
  bool with_logprobs_;
  std::shared_ptr<const AnswerPrompt> prompt_;  // prompt of the choice begun last
  std::string envelope_;                        // JSON members after the choices, without an opening brace
  Stage stage_ = Stage::kOpening;
  size_t choice_ = 0, list_ = 0, token_ = 0;  // the next text to make: its choice, list and token
};

}  // namespace quire
