#pragma once

#include <string>
#include <vector>

#include "coordinator/api/openai/event_queue.h"
#include "coordinator/text/detokenizer.h"

namespace quire {

/// What a client that asked for it is told of the tokens of its prompt: their scores as they come, and the text that
/// they make.
class PromptReporter {
 public:
  PromptReporter(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), detokenizer_(tokenizer, skip_special_tokens) {}

  /// Tokens of a part, at the most: with twenty alternatives each they are some 50 KB of JSON, a millisecond's work.
  static constexpr size_t kMostTokens = 32;

  struct Part {
    std::vector<ReportedToken> tokens;
    std::string text;
  };
  /// The first token, which nothing predicts. Before all others.
  Part First(const std::vector<TokenId>& prompt);
  /// The next tokens. `prompt` may be followed by others after its first num_tokens.
  std::vector<Part> Next(const PromptScores& scores, const std::vector<TokenId>& prompt);

  /// Characters of the text so far.
  size_t num_characters() const { return num_characters_; }

 private:
  void Add(ReportedToken token, Part& part);

  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  size_t num_tokens_ = 0;  // of the prompt
  size_t num_added_ = 0;
  size_t num_characters_ = 0;
};

}  // namespace quire
