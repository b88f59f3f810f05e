#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

/// Maps texts to numbers by their bytes. The trie is a double array: each byte of a search takes one memory access,
/// however many texts there are.
class ByteTrie {
 public:
  struct Entry {
    std::string_view text;
    int32_t value = 0;  // must not be negative
  };
  ByteTrie() : ByteTrie(std::vector<Entry>()) {}
  /// Makes the map. Empty texts are left out. If a text occurs several times, its last entry counts.
  explicit ByteTrie(std::vector<Entry> entries);

  static constexpr uint32_t kRoot = 0, kNone = UINT32_MAX;
  /// Returns the node to which `byte` leads from `node`; kNone when no text continues with this byte.
  uint32_t Step(uint32_t node, char byte) const {
    const uint32_t next = nodes_[node].base + static_cast<unsigned char>(byte);
    return next < nodes_.size() && nodes_[next].parent == node ? next : kNone;
  }
  /// Returns the number of the text that ends at the node; -1 when no text ends there.
  int32_t ValueAt(uint32_t node) const { return nodes_[node].value; }

  /// Returns a number that is larger than every node's index.
  size_t size() const { return nodes_.size(); }

  /// Returns the number of exactly this text; -1 when the map lacks the text.
  int32_t Find(std::string_view text) const;

 private:
  struct Node {
    uint32_t base = 0;
    uint32_t parent = kNone;  // kNone: the entry is free
    int32_t value = -1;
  };
  class Builder;

  std::vector<Node> nodes_;
};

}  // namespace quire
