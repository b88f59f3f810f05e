#include "tests/bench/contiguous_pool.h"

#include <iterator>

#include "comm/base/error.h"

namespace quire {

ContiguousPool::ContiguousPool(int64_t num_slots) : num_slots_(num_slots) {
  QUIRE_CHECK(num_slots >= 1, "{} slots", num_slots);
  AddHole(0, num_slots);
}

void ContiguousPool::AddHole(int64_t begin, int64_t size) {
  holes_.emplace(begin, size);
  by_size_.emplace(size, begin);
  num_free_ += size;
}

void ContiguousPool::RemoveHole(Spans::iterator hole) {
  num_free_ -= hole->second;
  by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

std::optional<int64_t> ContiguousPool::Allocate(int64_t size) {
  QUIRE_CHECK(size >= 1, "a region of {} slots", size);
  const auto best = by_size_.lower_bound({size, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [hole_size, begin] = *best;
  RemoveHole(holes_.find(begin));
  if (hole_size > size) AddHole(begin + size, hole_size - size);
  regions_.emplace(begin, size);
  return begin;
}

void ContiguousPool::Free(int64_t begin) {
  const auto region = regions_.find(begin);
  QUIRE_CHECK(region != regions_.end(), "no region begins at slot {}", begin);
  int64_t size = region->second;
  regions_.erase(region);
  const auto after = holes_.find(begin + size);
  if (after != holes_.end()) {
    size += after->second;
    RemoveHole(after);
  }
  const auto next = holes_.lower_bound(begin);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      size += before->second;
      RemoveHole(before);
    }
  }
  AddHole(begin, size);
}

void ContiguousPool::CheckIntegrity() const {
  Spans all = regions_;
  int64_t free = 0;
  for (const auto& [begin, size] : holes_) {
    QUIRE_CHECK(all.emplace(begin, size).second, "slot {} begins a region and a hole", begin);
    QUIRE_CHECK(by_size_.contains({size, begin}), "the hole at slot {} cannot be found by its size", begin);
    QUIRE_CHECK(!holes_.contains(begin + size), "the holes at slots {} and {} touch", begin, begin + size);
    free += size;
  }
  QUIRE_CHECK(by_size_.size() == holes_.size(), "{} holes, {} by size", holes_.size(), by_size_.size());
  QUIRE_CHECK(free == num_free_, "{} slots in holes, {} counted", free, num_free_);
  int64_t covered = 0;
  for (const auto& [begin, size] : all) {
    QUIRE_CHECK(begin == covered && size >= 1, "{} slots at {}, where {} should begin", size, begin, covered);
    covered += size;
  }
  QUIRE_CHECK(covered == num_slots_, "{} of {} slots accounted for", covered, num_slots_);
}

}  // namespace quire
