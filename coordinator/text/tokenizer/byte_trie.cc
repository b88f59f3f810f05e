#include "coordinator/text/tokenizer/byte_trie.h"

#include <algorithm>

namespace quire {

/// Builds the array node by node, and chooses the entries of all children of a node together. The texts are sorted, so
/// the texts below a node of depth `depth` are a contiguous range with the same first `depth` bytes.
class ByteTrie::Builder {
 public:
  Builder(const std::vector<Entry>& entries, std::vector<Node>& nodes) : entries_(entries), nodes_(nodes) {}

  void Build() {
    nodes_.assign(1, Node{0, kNone, -1});
    pending_.push_back({kRoot, 0, entries_.size(), 0});
    while (!pending_.empty()) {
      const Range range = pending_.back();
      pending_.pop_back();
      Place(range);
    }
    nodes_.shrink_to_fit();
  }

 private:
  struct Range {
    uint32_t node;
    size_t begin, end, depth;
  };

  unsigned char ByteOf(size_t entry, size_t depth) const {
    return static_cast<unsigned char>(entries_[entry].text[depth]);
  }

  void Place(Range range) {
    for (; range.begin < range.end && entries_[range.begin].text.size() == range.depth; ++range.begin)
      nodes_[range.node].value = entries_[range.begin].value;
    if (range.begin == range.end) return;
    std::vector<unsigned char> bytes;
    std::vector<size_t> begins;
    for (size_t i = range.begin; i < range.end; ++i) {
      const unsigned char byte = ByteOf(i, range.depth);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      begins.push_back(i);
    }
    begins.push_back(range.end);
    const uint32_t base = FreeBase(bytes);
    nodes_[range.node].base = base;
    for (size_t i = 0; i < bytes.size(); ++i) {
      nodes_[base + bytes[i]].parent = range.node;
      pending_.push_back({base + bytes[i], begins[i], begins[i + 1], range.depth + 1});
    }
  }

  bool IsFree(size_t node) const { return node >= nodes_.size() || (node != kRoot && nodes_[node].parent == kNone); }

  /// Returns a base such that the entry base + byte is free for each of `bytes`. Examines a limited number of entries
  /// per node, starting after the dense part of the array. If no examined base fits, returns a base at the array's end.
  uint32_t FreeBase(const std::vector<unsigned char>& bytes) {
    constexpr size_t kMostLooks = 256;
    while (first_free_ < nodes_.size() && !IsFree(first_free_)) ++first_free_;
    size_t looks = 0;
    for (size_t place = std::max<size_t>(first_free_, bytes.front() + size_t{1}); looks < kMostLooks; ++place) {
      if (!IsFree(place)) {
        looks += place < nodes_.size() ? 1 : 0;
        continue;
      }
      ++looks;
      const size_t base = place - bytes.front();
      if (!std::ranges::all_of(bytes, [&](unsigned char byte) { return IsFree(base + byte); })) continue;
      return Grown(base + bytes.back(), base);
    }
    first_free_ += kMostLooks / 4;  // dense region: its few free entries are not worth the search
    const size_t base = nodes_.size();
    return Grown(base + bytes.back(), base);
  }

  uint32_t Grown(size_t last, size_t base) {
    if (last >= nodes_.size()) nodes_.resize(last + 1);
    return static_cast<uint32_t>(base);
  }

  const std::vector<Entry>& entries_;
  std::vector<Node>& nodes_;
  std::vector<Range> pending_;
  size_t first_free_ = 1;
};

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  std::ranges::stable_sort(entries, {}, &Entry::text);
  Builder(entries, nodes_).Build();
  nodes_[kRoot].value = -1;  // ignores an empty text
}

int32_t ByteTrie::Find(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char byte : text) {
    node = Step(node, byte);
    if (node == kNone) return -1;
  }
  return ValueAt(node);
}

}  // namespace quire
