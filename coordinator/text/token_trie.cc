#include "coordinator/text/token_trie.h"

#include <algorithm>

namespace quire {

TokenTrie::TokenTrie() : nodes_(1) {}

uint32_t TokenTrie::Next(uint32_t node, char byte) const {
  const auto& next = nodes_[node].next;
  const auto found = std::ranges::find(next, byte, &std::pair<char, uint32_t>::first);
  return found == next.end() ? 0 : found->second;
}

void TokenTrie::Insert(std::string_view text, const AddedToken& token) {
  uint32_t node = 0;
  for (const char byte : text) {
    uint32_t next = node == 0 ? first_[static_cast<unsigned char>(byte)] : Next(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node == 0) {
        first_[static_cast<unsigned char>(byte)] = next;
      } else {
        nodes_[node].next.emplace_back(byte, next);
      }
    }
    node = next;
  }
  if (node != 0) nodes_[node].tokens.push_back(&token);
}

TokenTrie::Found TokenTrie::Longest(std::string_view text,
                                    const std::function<bool(const AddedToken&, size_t length)>& accept) const {
  Found longest;
  uint32_t node = text.empty() ? 0 : first_[static_cast<unsigned char>(text[0])];
  for (size_t length = 1; node != 0; ++length) {
    const auto& tokens = nodes_[node].tokens;
    const auto taken = std::ranges::find_if(tokens, [&](const AddedToken* token) { return accept(*token, length); });
    if (taken != tokens.end()) longest = {*taken, length};
    node = length < text.size() ? Next(node, text[length]) : 0;
  }
  return longest;
}

}  // namespace quire
