#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

/// Texts by their bytes, each with a number: a double array, in which a step from one byte to the next is one look at
/// memory however many texts there are.
class ByteTrie {
 public:
  struct Entry {
    std::string_view text;
    int32_t value = 0;  // not negative
  };
  ByteTrie() : ByteTrie(std::vector<Entry>()) {}
  /// Empty texts are left out. Of several that are alike the last one counts.
  explicit ByteTrie(std::vector<Entry> entries);

  static constexpr uint32_t kRoot = 0, kNone = UINT32_MAX;
  /// Where `byte` leads from a node; kNone: nowhere.
  uint32_t Step(uint32_t node, char byte) const {
    const uint32_t next = nodes_[node].base + static_cast<unsigned char>(byte);
    return next < nodes_.size() && nodes_[next].parent == node ? next : kNone;
  }
  /// The number of the text that ends at a node; -1: none does.
  int32_t ValueAt(uint32_t node) const { return nodes_[node].value; }

  /// Nodes are below it.
  size_t size() const { return nodes_.size(); }

  /// The number of exactly that text, or -1.
  int32_t Find(std::string_view text) const;

 private:
  struct Node {
    uint32_t base = 0;
    uint32_t parent = kNone;  // kNone: nobody's, and free
    int32_t value = -1;
  };
  class Builder;

  std::vector<Node> nodes_;
};

}  // namespace quire
