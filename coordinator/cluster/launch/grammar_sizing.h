#pragma once

#include <vector>

#include "comm/grammar/grammar_memory.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Returns the most bytes that grammars may take on each rank. All ranks of a host together get at most an eighth of
/// the host's memory, or of its control group's memory; but each rank gets at least 24 MiB. All ranks use the same
/// number, so the host with the least memory for each rank decides. A host whose memory is unknown does not count.
GrammarMemory GrammarMemoryOf(const Topology& topology, const std::vector<RankInfo>& ranks);

}  // namespace quire
