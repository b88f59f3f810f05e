#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// The time limit of splitting, for all patterns, pieces and texts together. Only one thread uses an object of this
/// class.
class SplitBudget {
 public:
  /// `text_bytes`: the total size of the texts, which sets the time limit unless `time` is given. `stop` ends the work
  /// within a few milliseconds.
  explicit SplitBudget(size_t text_bytes, std::optional<std::chrono::nanoseconds> time = {}, std::stop_token stop = {});
  ~SplitBudget();

  /// Call it before each piece of work that uses no pattern, with the number of bytes to process. Throws Stopped when
  /// `stop` asks for it, and Error when the time is up. Reads the clock only after a certain number of bytes.
  void Check(size_t bytes);

 private:
  friend class Splitter;
  struct State;
  std::unique_ptr<State> state_;
};

/// Finds the matches of a Perl-style pattern with Unicode properties. Patterns come from models' files, so their time
/// and memory are limited. Threads can share an object.
class Splitter {
 public:
  /// Compiles the pattern. Throws Error when the pattern is too long, does not compile, or contains \K, which changes
  /// where a match begins. If the pattern does not compile or contains \K, the Error names the position in the pattern.
  explicit Splitter(const std::string& pattern);
  ~Splitter();
  Splitter(Splitter&&) noexcept;

  /// True when the pattern's time is known to be linear in the length of any text.
  bool is_linear() const { return is_linear_; }

  struct Match {
    size_t begin = 0, end = 0;  // first byte of the match, and the byte after its end
  };
  /// Appends the matches in `text` (valid UTF-8) in order; no match is empty. Throws Error when the matcher exceeds its
  /// limits or the budget is spent, and Stopped when the budget's stop token asks for it.
  void Find(std::string_view text, std::vector<Match>& matches, SplitBudget& budget) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
  bool is_linear_;
};

/// Returns a pattern that matches only `text`.
std::string LiteralPattern(std::string_view text);

/// GPT-2's word pattern, the default of byte-level pre-tokenizers.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;
/// The punctuation of Unicode 8.0, as in Hugging Face's tokenizers, and the ASCII symbols that these tokenizers count
/// as punctuation. Characters that later versions of Unicode changed are listed one by one.
extern const char* const kPunctuationPattern;
/// Matches words, and runs of characters that are neither word characters nor whitespace.
extern const char* const kWordsPattern;

}  // namespace quire
