#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/text/splitter.h"
#include "coordinator/text/unicode_forms.h"

namespace quire {

/// What a model does to a text before it is cut into words: steps, one after another.
namespace normalize {

struct Lowercase {};
struct StripMarks {};  // combining ones
struct Trim {          // of whitespace
  bool left = false, right = false;
};
/// Control characters are left out, and what counts as a blank becomes a space.
struct CleanControls {};
/// In front of a text that is not empty.
struct Prepend {
  std::string text;
};
struct Replace {
  std::string pattern;  // a text, or a regular expression
  bool is_regex = false;
  std::string content;
};
/// The entries of a charsmap (charsmap.h), grapheme by grapheme: as Hugging Face's tokenizers do it.
struct Precompiled {
  std::string charsmap;
};
/// All that SentencePiece does.
struct SentencePiece {
  std::string charsmap;  // empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;         // spaces become "▁"
  bool whitespace_as_suffix = false;      // the dummy prefix goes behind the text
  std::vector<std::string> user_defined;  // pieces that stay as they are
};

}  // namespace normalize

using NormalizerStep =
    std::variant<UnicodeForm, normalize::Lowercase, normalize::StripMarks, normalize::Trim, normalize::CleanControls,
                 normalize::Prepend, normalize::Replace, normalize::Precompiled, normalize::SentencePiece>;

/// The steps, ready to be taken. Immutable; safe to share between threads.
class Normalizer {
 public:
  /// Throws Error when a step's table or pattern is broken or too long, or there are too many steps.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  /// The text (valid UTF-8) as the steps leave it, itself or in `storage`. Throws Error when it has more than `room`
  /// bytes or grows beyond all measure, and whatever SplitBudget throws.
  std::string_view Apply(std::string_view text, std::string& storage, SplitBudget& budget,
                         size_t room = SIZE_MAX) const;
  /// Bytes that a text of so many may become.
  static size_t RoomFor(size_t bytes);

  /// No text becomes shorter than by that factor, 0: it may vanish.
  size_t shrinking() const { return shrinking_; }
  /// As Splitter has it.
  bool is_linear() const { return is_linear_; }

 private:
  /// The step on a text, whose result may have so many bytes.
  using Work = std::function<std::string(std::string_view text, size_t max_bytes, SplitBudget& budget)>;
  void Add(const normalize::Replace& step);

  std::vector<Work> work_;
  size_t shrinking_ = 1;
  bool is_linear_ = true;
};

}  // namespace quire
