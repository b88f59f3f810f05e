#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/schema/code_points.h"

namespace quire {

/// A set of texts: a deterministic automaton over code points. State 0 is the beginning. A text that a state has no
/// edge for is not of the set.
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

  /// Every text.
  static TextAutomaton Any();
  /// Texts of so many code points; no `most`: no bound above.
  static TextAutomaton OfLength(size_t least, std::optional<size_t> most);
  /// These texts alone, which are UTF-8.
  static TextAutomaton Of(const std::vector<std::string>& texts);
  /// Texts that have this one, which is not empty, somewhere inside.
  static TextAutomaton With(std::string_view inside);
  /// Texts that neither begin nor end with one of these code points.
  static TextAutomaton NotAtEnds(const CodeRanges& blanks);

  /// For UTF-8; bytes that are none are of no set.
  bool Accepts(std::string_view text) const;
  bool IsEmpty() const;
};

/// States that an automaton may have; what would have more throws Error.
inline constexpr size_t kMostStates = 4000;

TextAutomaton Intersection(const TextAutomaton& a, const TextAutomaton& b);
TextAutomaton Not(const TextAutomaton& automaton);
/// The same set with as few states as there can be, and none from which no text ends.
TextAutomaton Minimised(const TextAutomaton& automaton);

}  // namespace quire
