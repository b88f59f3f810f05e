#pragma once

#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/text/tokenizer/metaspace.h"
#include "coordinator/text/tokenizer/splitter.h"

namespace quire {

/// Steps that cut a text into pieces, each of which is encoded by itself.
namespace pre_tokenize {

/// Splits at the matches of a pattern.
struct Split {
  std::string pattern;
  enum class Behavior {
    kIsolated,            // matches and the text between them are pieces
    kRemoved,             // matches are dropped
    kMergedWithPrevious,  // a match joins the piece before it
    kMergedWithNext,      // a match joins the piece after it
    kContiguous           // adjacent matches form one piece
  };
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // swaps matches and the text between them
};
/// Puts a space in front of every piece that does not begin with a space.
struct PrefixSpace {};
/// Replaces spaces by marks (metaspace.h).
struct Marks {
  enum class Front { kNone, kFirst, kEvery };  // the pieces that get a mark in front, if they do not begin with one
  Front front = Front::kEvery;
  bool split = true;  // a piece begins at every mark
};
/// Rewrites pieces in the byte alphabet (byte_level.h). Later steps see this form.
struct Alphabet {};

}  // namespace pre_tokenize

using PreTokenizerStep =
    std::variant<pre_tokenize::Split, pre_tokenize::PrefixSpace, pre_tokenize::Marks, pre_tokenize::Alphabet>;

/// Compiled pre-tokenizer steps. The class is immutable, so threads can share an object.
class PreTokenizer {
 public:
  /// Compiles the steps. Throws Error when a pattern is invalid, or when there are too many patterns or steps.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  struct Pieces {
    std::vector<std::string_view> all;
    std::deque<std::string> storage;  // holds the pieces that are not parts of the text
  };
  /// Cuts valid UTF-8 into pieces. is_first: the text is the beginning of the whole text. Throws Stopped when `stop`
  /// asks for it, and the exceptions of Splitter::Find.
  Pieces Cut(std::string_view text, bool is_first, const std::stop_token& stop, SplitBudget& budget) const;

  /// True when no step drops anything.
  bool keeps_all() const { return keeps_all_; }
  /// True when the time of every step is known to be linear in the text's length (Splitter::is_linear).
  bool is_linear() const { return is_linear_; }

 private:
  struct Step {
    PreTokenizerStep how;
    std::optional<Splitter> splitter;  // set for a Split
  };
  /// Appends the pieces that a step makes of one piece. is_first: the piece begins the whole text.
  static void Take(const Step& step, std::string_view piece, bool is_first, SplitBudget& budget, Pieces& out);

  std::vector<Step> steps_;
  bool keeps_all_ = true;
  bool is_linear_ = true;
  bool writes_alphabet_ = false;
};

}  // namespace quire
