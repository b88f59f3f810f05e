#include "coordinator/cluster/launch/grammar_sizing.h"

#include <algorithm>
#include <cstdint>

#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

constexpr int64_t kLeastBytes = 24 << 20;

}  // namespace

GrammarMemory GrammarMemoryOf(const Topology& topology, const std::vector<RankInfo>& ranks) {
  const auto sharers = RanksOfAllReplicas(topology, ranks);
  int64_t bytes = INT64_MAX;
  for (const RankInfo& rank : ranks) {
    if (rank.memory_bytes > 0)
      bytes = std::min(bytes, std::max(kLeastBytes, rank.memory_bytes / 8 / sharers.at(rank.host)));
  }
  return GrammarMemory::Within(bytes);
}

}  // namespace quire
