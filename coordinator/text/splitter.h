#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// Cuts text into pieces: every match of a pattern is a piece, and so is whatever lies between two matches.
/// Patterns are Perl-style with Unicode properties. Safe to share between threads.
class Splitter {
 public:
  /// Throws Error when the pattern does not compile.
  explicit Splitter(const std::string& pattern);
  ~Splitter();
  Splitter(Splitter&&) noexcept;

  /// Appends the pieces of `text` (valid UTF-8). Throws Error when the text drives the matcher over its limits.
  void Split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

/// GPT-2's word pattern, which byte-level pre-tokenizers apply unless told otherwise.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;

}  // namespace quire
