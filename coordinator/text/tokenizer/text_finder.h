#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "coordinator/text/tokenizer/byte_trie.h"

namespace quire {

/// Finds texts at every position of another text, with an Aho-Corasick automaton that reads the other text from its
/// end. The time is linear in the other text's length, whatever the number, length and similarity of the texts to find.
class TextFinder {
 public:
  TextFinder() : TextFinder(std::vector<std::string_view>()) {}
  /// Makes the automaton that finds `texts`. Empty texts are never found. Time and memory are proportional to the total
  /// size of `texts`. Throws Error when the total size exceeds 16 MiB.
  explicit TextFinder(const std::vector<std::string_view>& texts);

  static constexpr uint32_t kNothing = ByteTrie::kRoot;
  /// Returns the automaton's state at `byte`, given the state `behind` at the byte after it (the text is read from its
  /// end). A state means the longest end of one of `texts` that begins at this byte. kNothing means that none begins
  /// there; it is also the state after the text's last byte.
  uint32_t Before(char byte, uint32_t behind) const {
    for (;;) {
      const uint32_t next = trie_.Step(behind, byte);
      if (next != ByteTrie::kNone) return next;
      if (behind == kNothing) return kNothing;
      behind = nodes_[behind].shorter;
    }
  }
  /// Returns the index of the longest text that begins at the byte which led to this state; -1 when no text begins
  /// there. If a text was given several times, returns the first of its indices.
  int32_t Longest(uint32_t state) const { return nodes_[state].longest; }

 private:
  struct Node {
    uint32_t shorter = kNothing;  // the longest shorter match to fall back to (failure link)
    int32_t longest = -1;
  };

  ByteTrie trie_;  // holds the texts reversed
  std::vector<Node> nodes_;
};

}  // namespace quire
