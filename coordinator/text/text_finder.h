#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "coordinator/text/byte_trie.h"

namespace quire {

/// Texts that are looked for at every place of another text: Aho and Corasick's automaton, which reads that text from
/// its end. Time is linear in the other text, however many and long the texts are and however nearly they come there.
class TextFinder {
 public:
  TextFinder() : TextFinder(std::vector<std::string_view>()) {}
  /// Empty texts are never found. Time and memory go with the bytes of all texts; throws Error when those are more than
  /// 16 MiB.
  explicit TextFinder(const std::vector<std::string_view>& texts);

  static constexpr uint32_t kNothing = ByteTrie::kRoot;
  /// The state in front of `byte`, from that behind it: kNothing behind the last byte, or where no text may go on.
  uint32_t Before(char byte, uint32_t behind) const {
    for (;;) {
      const uint32_t next = trie_.Step(behind, byte);
      if (next != ByteTrie::kNone) return next;
      if (behind == kNothing) return kNothing;
      behind = nodes_[behind].shorter;
    }
  }
  /// The index of the longest text that begins in front of the byte that led to a state, the first one of those that
  /// are alike; -1: none does.
  int32_t Longest(uint32_t state) const { return nodes_[state].longest; }

 private:
  struct Node {
    uint32_t shorter = kNothing;  // what is left of the texts that go on there without their last bytes
    int32_t longest = -1;
  };

  ByteTrie trie_;  // of the texts, their last bytes first
  std::vector<Node> nodes_;
};

}  // namespace quire
