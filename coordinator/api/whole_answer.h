#pragma once

#include <string>
#include <vector>

#include "coordinator/api/openai_response.h"

namespace quire {

/// The JSON text of an answer that is not streamed, made piece by piece from compact records: at no time is there more
/// of it than a piece, however many choices and log-probabilities it has. Used by one thread at a time.
class WholeAnswer {
 public:
  WholeAnswer(ResponseBuilder builder, std::vector<AnswerChoice> choices, bool with_logprobs, const Usage& usage);

  /// The next `bytes` of the text or a little more (a choice's text stays whole); less only at its end.
  std::string Next(size_t bytes);
  bool done() const { return stage_ == Stage::kDone; }

  /// About how long the text is.
  size_t estimated_bytes() const;

 private:
  enum class Stage { kOpening, kChoice, kList, kDone };
  void BeginChoice(std::string& out);
  void Continue(std::string& out);
  void EndChoice(std::string& out);

  ResponseBuilder builder_;
  std::vector<AnswerChoice> choices_;  // those that are done are empty
  bool with_logprobs_;
  std::string envelope_;  // of the answer, without its opening brace
  Stage stage_ = Stage::kOpening;
  size_t choice_ = 0, list_ = 0, token_ = 0;  // where the text goes on
};

}  // namespace quire
