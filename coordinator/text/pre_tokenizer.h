#pragma once

#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/text/metaspace.h"
#include "coordinator/text/splitter.h"

namespace quire {

/// How a text is cut into pieces, each of which is encoded by itself: steps, one after another.
namespace pre_tokenize {

/// At the matches of a pattern.
struct Split {
  std::string pattern;
  enum class Behavior {
    kIsolated,            // a match is a piece, and so is what lies between two
    kRemoved,             // matches are left out
    kMergedWithPrevious,  // a match goes with what is before it
    kMergedWithNext,      // .. or behind it
    kContiguous           // matches that follow one another are one piece
  };
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // what lies between matches counts as the match
};
/// A space in front of every piece that does not begin with one.
struct PrefixSpace {};
/// Spaces become marks (metaspace.h).
struct Marks {
  enum class Front { kNone, kFirst, kEvery };  // a mark in front of which pieces that do not begin with one
  Front front = Front::kEvery;
  bool split = true;  // at every mark
};
/// From here on pieces are written in the alphabet of bytes (byte_level.h).
struct Alphabet {};

}  // namespace pre_tokenize

using PreTokenizerStep =
    std::variant<pre_tokenize::Split, pre_tokenize::PrefixSpace, pre_tokenize::Marks, pre_tokenize::Alphabet>;

/// The steps, ready to be taken. Immutable; safe to share between threads.
class PreTokenizer {
 public:
  /// Throws Error when a pattern is broken, or there are too many of them.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  struct Pieces {
    std::vector<std::string_view> all;
    std::deque<std::string> storage;  // of those that are not parts of the text
  };
  /// Cuts valid UTF-8. is_first: the whole text begins with it. Throws what Splitter::Find throws, and Stopped.
  Pieces Cut(std::string_view text, bool is_first, const std::stop_token& stop, SplitBudget& budget) const;

  /// No piece is left out, and no byte of one.
  bool keeps_all() const { return keeps_all_; }
  /// As Splitter has it.
  bool is_linear() const { return is_linear_; }

 private:
  struct Step {
    PreTokenizerStep how;
    std::optional<Splitter> splitter;  // of a Split
  };
  /// What a step leaves of one piece. is_first: the whole text begins with it.
  static void Take(const Step& step, std::string_view piece, bool is_first, SplitBudget& budget, Pieces& out);

  std::vector<Step> steps_;
  bool keeps_all_ = true;
  bool is_linear_ = true;
  bool writes_alphabet_ = false;
};

}  // namespace quire
