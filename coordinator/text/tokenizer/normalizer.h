#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/text/tokenizer/splitter.h"
#include "coordinator/text/unicode_forms.h"

namespace quire {

/// The steps with which a model changes a text before the text is cut into words.
namespace normalize {

struct Lowercase {};
struct StripMarks {};  // removes combining marks
struct Trim {          // removes whitespace at the ends
  bool left = false, right = false;
};
/// Removes control characters, and replaces whitespace by spaces.
struct CleanControls {};
// The steps of BertNormalizer (bert_characters.h).
struct BertClean {};       // removes controls, and turns whitespace into spaces
struct BertIdeographs {};  // puts spaces around ideographs
struct BertStrip {};       // removes accents of decomposed text
/// Puts a text in front of every text that is not empty.
struct Prepend {
  std::string text;
};
struct Replace {
  std::string pattern;  // a text or a regular expression
  bool is_regex = false;
  std::string content;
};
/// Applies a charsmap (charsmap.h) grapheme by grapheme, as Hugging Face's tokenizers do.
struct Precompiled {
  std::string charsmap;
};
/// All of SentencePiece's normalisation.
struct SentencePiece {
  std::string charsmap;  // empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;         // spaces become "▁"
  bool whitespace_as_suffix = false;      // the dummy prefix goes after the text
  std::vector<std::string> user_defined;  // pieces that stay unchanged
};

}  // namespace normalize

using NormalizerStep =
    std::variant<UnicodeForm, normalize::Lowercase, normalize::StripMarks, normalize::Trim, normalize::CleanControls,
                 normalize::BertClean, normalize::BertIdeographs, normalize::BertStrip, normalize::Prepend,
                 normalize::Replace, normalize::Precompiled, normalize::SentencePiece>;

/// Compiled normalizer steps. The class is immutable, so threads can share an object.
class Normalizer {
 public:
  /// Compiles the steps. Throws Error when a step's table, pattern or text is invalid or too long, or when there are
  /// too many steps.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  /// Normalises the text (valid UTF-8). The result is the text itself, or lies in `storage`. Throws Error when the
  /// result exceeds `room` or RoomFor(text.size()) bytes, and passes on exceptions of SplitBudget.
  std::string_view Apply(std::string_view text, std::string& storage, SplitBudget& budget,
                         size_t room = SIZE_MAX) const;
  /// Returns the most bytes that a text of `bytes` bytes may become.
  static size_t RoomFor(size_t bytes);

  /// Returns the largest factor by which normalisation may shorten a text; 0: a text may vanish.
  size_t shrinking() const { return shrinking_; }
  /// True when the time of every step is known to be linear in the text's length (Splitter::is_linear).
  bool is_linear() const { return is_linear_; }

 private:
  /// Applies a step to a text; the result may have at most max_bytes bytes.
  using Work = std::function<std::string(std::string_view text, size_t max_bytes, SplitBudget& budget)>;
  void Add(const normalize::Replace& step);
  /// Adds a step in which `append` appends the replacement of each character, which may be empty.
  void AddByCharacter(void (*append)(char32_t character, std::string& out));

  std::vector<Work> work_;
  size_t shrinking_ = 1;
  bool is_linear_ = true;
};

}  // namespace quire
