#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/collective/shared_memory.h"
#include "comm/collective/shared_stage_link.h"

namespace quire {

inline std::shared_ptr<void> ZeroedMemory(size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  std::shared_ptr<void> memory(std::aligned_alloc(64, bytes), std::free);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

/// More ranks than any host has processors for, so that a waiting rank sleeps. Tests run beside other tests, which can
/// use the processor.
constexpr int kCrowd = 1 << 20;

/// Returns collectives for `size` ranks that are threads of this process; element r belongs to rank r. They wait as on
/// a host with `ranks_of_host` ranks.
inline std::vector<std::unique_ptr<Collective>> MakeThreadCollectives(int size, int ranks_of_host = kCrowd) {
  const std::shared_ptr<void> memory = ZeroedMemory(SharedArena::BytesFor(size));
  std::vector<std::unique_ptr<Collective>> ranks;
  for (Rank rank = 0; rank < size; ++rank) {
    ranks.push_back(
        std::make_unique<SharedMemoryCollective>(SharedArena(memory.get(), size), rank, memory, ranks_of_host));
  }
  return ranks;
}

/// One rank of a group, in which ranks are threads of this process: the collective of its stage, and its link to other
/// stages (null without a pipeline).
struct ThreadPeers {
  std::unique_ptr<Collective> stage;
  std::unique_ptr<SharedStageLink> link;

  void Abort() {
    stage->Abort();
    if (link != nullptr) link->Abort();
  }
};

inline std::vector<ThreadPeers> MakeThreadPeers(const GroupCut& cut) {
  std::vector<ThreadPeers> ranks(static_cast<size_t>(cut.num_ranks()));
  const int stages = cut.num_stages(), places = cut.stage_size();
  for (int stage = 0; stage < stages; ++stage) {
    auto collectives = MakeThreadCollectives(places);
    for (int place = 0; place < places; ++place)
      ranks[static_cast<size_t>(cut.RankAt(stage, place))].stage = std::move(collectives[static_cast<size_t>(place)]);
  }
  for (int place = 0; stages > 1 && place < places; ++place) {
    const std::shared_ptr<void> memory = ZeroedMemory(StageArena::BytesFor(stages));
    for (int stage = 0; stage < stages; ++stage)
      ranks[static_cast<size_t>(cut.RankAt(stage, place))].link =
          std::make_unique<SharedStageLink>(StageArena(memory.get(), stages), stage, memory);
  }
  return ranks;
}

}  // namespace quire
