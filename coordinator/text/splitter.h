#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// What splitting may cost, in all patterns, pieces and texts together. One thread uses it.
class SplitBudget {
 public:
  /// `text_bytes`: of all that will be split; the time goes with it. A deadline that is given counts instead.
  /// `stop` ends the work within a few milliseconds.
  explicit SplitBudget(size_t text_bytes, std::optional<std::chrono::nanoseconds> time = {}, std::stop_token stop = {});
  ~SplitBudget();

  /// Between two pieces of work that take no pattern, the next one on so many bytes: throws Stopped when the stop token
  /// says so, and Error when the time is up. Few bytes do not look at the clock.
  void Check(size_t bytes);

 private:
  friend class Splitter;
  struct State;
  std::unique_ptr<State> state_;
};

/// Finds the matches of a pattern. Patterns are Perl-style with Unicode properties; they come with models, so none may
/// run or grow without end. Safe to share between threads.
class Splitter {
 public:
  /// Throws Error, with the place in the pattern, when it does not compile, is too long, or moves the match's begin
  /// (\K).
  explicit Splitter(const std::string& pattern);
  ~Splitter();
  Splitter(Splitter&&) noexcept;

  /// True when the pattern is one whose time is known to be linear in any text.
  bool is_linear() const { return is_linear_; }

  struct Match {
    size_t begin = 0, end = 0;  // bytes
  };
  /// Appends the matches in `text` (valid UTF-8), which follow one another; none is empty. Throws Error when the text
  /// drives the matcher over its limits, or the budget is spent, and Stopped when the budget's stop token says so.
  void Find(std::string_view text, std::vector<Match>& matches, SplitBudget& budget) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
  bool is_linear_;
};

/// The pattern that matches `text` and nothing else.
std::string LiteralPattern(std::string_view text);

/// GPT-2's word pattern, which byte-level pre-tokenizers apply unless told otherwise.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;
/// Unicode's punctuation as of version 8.0, whose table Hugging Face's tokenizers have, and what counts as such in
/// ASCII. What later versions have added to it or taken from it is spelled out.
extern const char* const kPunctuationPattern;
/// Words, and runs of what is neither word nor blank.
extern const char* const kWordsPattern;

}  // namespace quire
