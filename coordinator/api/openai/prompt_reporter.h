#pragma once

#include <string>
#include <vector>

#include "coordinator/api/openai/event_queue.h"
#include "coordinator/text/tokenizer/detokenizer.h"

namespace quire {

/// Collects the reported data of a prompt's tokens: log-probabilities, ranks and text.
class PromptReporter {
 public:
  PromptReporter(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), detokenizer_(tokenizer, skip_special_tokens) {}

  /// The most tokens of a Part. Making the JSON of this many tokens, with twenty alternatives each, takes about a
  /// millisecond.
  static constexpr size_t kMostTokens = 32;

  struct Part {
    std::vector<ReportedToken> tokens;
    std::string text;
  };
  /// Returns the prompt's first token, which has no log-probability. Call it before Next.
  Part First(const std::vector<TokenId>& prompt);
  /// Returns the prompt's next tokens with their log-probabilities. `prompt` may be longer than it was in
  /// First().
  std::vector<Part> Next(const PromptScores& scores, const std::vector<TokenId>& prompt);

  /// Returns the number of characters of prompt text that First() and Next() have returned.
  size_t num_characters() const { return num_characters_; }

 private:
  void Add(ReportedToken token, Part& part);

  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  size_t num_tokens_ = 0;  // length of the prompt, set by First()
  size_t num_added_ = 0;
  size_t num_characters_ = 0;
};

}  // namespace quire
