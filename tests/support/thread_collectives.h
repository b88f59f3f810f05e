#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/collective/shared_memory.h"

namespace quire {

/// Makes collectives for `size` ranks that are threads of this process; element r belongs to rank r.
inline std::vector<std::unique_ptr<Collective>> MakeThreadCollectives(int size) {
  const size_t bytes = (SharedArena::BytesFor(size) + 63) / 64 * 64;
  std::shared_ptr<void> memory(std::aligned_alloc(64, bytes), std::free);
  std::memset(memory.get(), 0, bytes);
  std::vector<std::unique_ptr<Collective>> ranks;
  for (Rank rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<SharedMemoryCollective>(SharedArena(memory.get(), size), rank, memory));
  }
  return ranks;
}

}  // namespace quire
