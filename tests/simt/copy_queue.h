#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace quire::simt {

/// Holds the copies to shared memory that one thread has started and not yet waited for.
struct CopyQueue {
  struct Copy {
    int64_t offset;
    size_t size;
    std::byte bytes[16];
  };
  std::vector<Copy> uncommitted;
  std::deque<std::vector<Copy>> groups;

  void Clear() {
    uncommitted.clear();
    groups.clear();
  }
  bool InFlight() const {
    bool any = !uncommitted.empty();
    for (const auto& group : groups) any |= !group.empty();
    return any;
  }
};

}  // namespace quire::simt
