#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// Added tokens by what they spell. Looking one up takes time that goes with how far the text agrees with any of them,
/// however many there are: some models reserve hundreds of control tokens that all begin with "<|reserved".
class TokenTrie {
 public:
  TokenTrie();

  /// The token must stay where it is. Of several that spell the same, the first one is found first.
  void Insert(std::string_view text, const AddedToken& token);

  struct Found {
    const AddedToken* token = nullptr;  // null: none
    size_t length = 0;                  // bytes of the text that it is
  };
  /// The longest token that the text begins with and that `accept` takes.
  Found Longest(std::string_view text, const std::function<bool(const AddedToken&, size_t length)>& accept) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> next;  // by byte, in no order
    std::vector<const AddedToken*> tokens;        // that end here
  };
  /// 0: none.
  uint32_t Next(uint32_t node, char byte) const;

  std::vector<Node> nodes_;               // nodes_[0] is never used, so that 0 means none
  std::array<uint32_t, 256> first_ = {};  // by first byte, where nearly every look-up ends
};

}  // namespace quire
