#pragma once

#include <memory>

#include "comm/collective/collective.h"
#include "comm/collective/hierarchical.h"

namespace quire {

// Between MPI_Init and MPI_Finalize, one thread.

/// Collectives by MPI alone, flat: every rank gathers the parts of all others.
std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size);

/// The exchange among the ranks that lead; null for the others. Collective call of all ranks.
std::unique_ptr<LeaderExchange> MakeMpiLeaderExchange(bool leads);

}  // namespace quire
