#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/schema/code_points.h"

namespace quire {

/// A set of texts as a deterministic automaton over code points. State 0 is the start. A missing edge means that the
/// text is not in the set.
struct TextAutomaton {
  struct Edge {
    CodePoint first, last;
    int to;
    bool operator==(const Edge&) const = default;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  // sorted, without overlaps
  };
  std::vector<State> states;

  /// Returns the set of all texts.
  static TextAutomaton Any();
  /// Returns the texts of `least` to `most` code points; without `most` there is no upper limit.
  static TextAutomaton OfLength(size_t least, std::optional<size_t> most);
  /// Returns the set of exactly these texts, without texts that are not UTF-8.
  static TextAutomaton Of(const std::vector<std::string>& texts);
  /// Returns the texts that contain `inside`, which must not be empty.
  static TextAutomaton With(std::string_view inside);
  /// Returns the texts that neither begin nor end with one of these code points.
  static TextAutomaton NotAtEnds(const CodeRanges& blanks);

  /// True when the set contains the UTF-8 text. A text that CodePointsOf refuses is in no set.
  bool Accepts(std::string_view text) const;
  bool IsEmpty() const;
};

/// The most states that an automaton may have. Operations whose result would need more throw Error.
inline constexpr size_t kMostStates = 4000;

TextAutomaton Intersection(const TextAutomaton& a, const TextAutomaton& b);
TextAutomaton Not(const TextAutomaton& automaton);
/// Returns the smallest automaton that accepts the same texts. Every state of it, except perhaps state 0, leads to an
/// accepting state.
TextAutomaton Minimised(const TextAutomaton& automaton);

}  // namespace quire
