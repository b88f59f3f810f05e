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

 private:
  friend class Splitter;
  struct State;
  std::unique_ptr<State> state_;
};

/// Cuts text into pieces: every match of a pattern is a piece, and so is whatever lies between two matches.
/// Patterns are Perl-style with Unicode properties; they come with models, so none may run or grow without end.
/// Safe to share between threads.
class Splitter {
 public:
  /// Throws Error, with the place in the pattern, when it does not compile, is too long, or moves the match's begin
  /// (\K).
  explicit Splitter(const std::string& pattern);
  ~Splitter();
  Splitter(Splitter&&) noexcept;

  /// True when the pattern is one whose time is known to be linear in any text.
  bool is_linear() const { return is_linear_; }

  /// Appends the pieces of `text` (valid UTF-8). Throws Error when the text drives the matcher over its limits, or the
  /// budget is spent, and Stopped when the budget's stop token says so.
  void Split(std::string_view text, std::vector<std::string_view>& pieces, SplitBudget& budget) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
  bool is_linear_;
};

/// GPT-2's word pattern, which byte-level pre-tokenizers apply unless told otherwise.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;

}  // namespace quire
