#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace quire {

/// An allocator of KV memory without paging: one contiguous region of token slots per request, by best fit with
/// coalescing. It models the baselines of the memory bench and holds no data.
class ContiguousPool {
 public:
  /// Makes slots 0 .. num_slots - 1, all free.
  explicit ContiguousPool(int64_t num_slots);

  int64_t num_slots() const { return num_slots_; }
  int64_t num_free() const { return num_free_; }
  /// Returns the number of free slots in the largest hole, which is the largest region that Allocate() can give now; 0:
  /// no hole.
  int64_t largest_hole() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

  /// Allocates a region of `size` >= 1 slots from the smallest hole that is large enough (the lowest among equals).
  /// Returns its first slot; nullopt when no hole is large enough.
  std::optional<int64_t> Allocate(int64_t size);

  /// Frees the region that begins at `begin`, and joins it with the holes beside it.
  void Free(int64_t begin);

  /// Aborts unless regions and holes cover every slot once, no two holes touch, and the sums are right.
  void CheckIntegrity() const;

 private:
  using Spans = std::map<int64_t, int64_t>;  // first slot -> number of slots

  void AddHole(int64_t begin, int64_t size);
  void RemoveHole(Spans::iterator hole);

  int64_t num_slots_;
  int64_t num_free_ = 0;
  Spans regions_, holes_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, begin) of every hole
};

}  // namespace quire
