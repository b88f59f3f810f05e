#include "coordinator/text/tokenizer/text_finder.h"

#include <algorithm>
#include <string>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr size_t kMaxSoughtBytes = 16 << 20;  // total length of all texts; each byte takes 20 bytes in the automaton

ByteTrie TrieOfReversed(const std::vector<std::string_view>& texts) {
  size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  if (bytes > kMaxSoughtBytes)
    Fail("tokenizer: the tokens that are looked for in texts have {} bytes, at most {} are allowed", bytes,
         kMaxSoughtBytes);
  std::vector<std::string> reversed;
  reversed.reserve(texts.size());
  for (const std::string_view text : texts) reversed.emplace_back(text.rbegin(), text.rend());
  std::vector<ByteTrie::Entry> entries;
  // ByteTrie stores the last of equal texts, so the texts are added in reverse, and the first one counts.
  for (size_t i = texts.size(); i-- > 0;) entries.push_back({reversed[i], static_cast<int32_t>(i)});
  return ByteTrie(std::move(entries));
}

}  // namespace

/// Makes the automaton. Visits nodes by depth, because a node's `shorter` is less deep and must be known first.
TextFinder::TextFinder(const std::vector<std::string_view>& texts)
    : trie_(TrieOfReversed(texts)), nodes_(trie_.size()) {
  std::vector<bool> is_known(trie_.size(), false);
  is_known[kNothing] = true;
  std::vector<uint32_t> reached(texts.size(), kNothing);
  std::vector<size_t> left;  // indices of texts longer than the current depth
  for (size_t i = 0; i < texts.size(); ++i) left.push_back(i);
  for (size_t depth = 0; !left.empty(); ++depth) {
    std::erase_if(left, [&](size_t i) { return texts[i].size() <= depth; });
    for (const size_t i : left) {
      const char byte = texts[i][texts[i].size() - 1 - depth];
      const uint32_t behind = reached[i], state = trie_.Step(behind, byte);
      reached[i] = state;
      if (is_known[state]) continue;
      is_known[state] = true;
      Node& node = nodes_[state];
      if (behind != kNothing) node.shorter = Before(byte, nodes_[behind].shorter);
      const int32_t own = trie_.ValueAt(state);
      node.longest = own >= 0 ? own : nodes_[node.shorter].longest;
    }
  }
}

}  // namespace quire
