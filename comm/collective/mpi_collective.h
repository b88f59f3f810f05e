#pragma once

#include <memory>

#include "comm/base/group_cut.h"
#include "comm/collective/collective.h"
#include "comm/collective/hierarchical.h"
#include "comm/collective/stage_link.h"

namespace quire {

// Use these functions only between MPI_Init and MPI_Finalize, from one thread.

/// Makes a flat collective over MPI alone: every rank gathers the parts of all others.
std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size);

/// Makes the exchange among the leaders of a subgroup's hosts; returns null on ranks that do not lead. All ranks of all
/// subgroups must call this function together.
std::unique_ptr<LeaderExchange> MakeMpiLeaderExchange(bool leads, int subgroup = 0);

/// Makes the link between `rank` and the ranks that have the same index within the pipeline's other stages.
std::unique_ptr<StageLink> MakeMpiStageLink(const GroupCut& cut, Rank rank);

}  // namespace quire
