#pragma once

#include <memory>

#include "comm/collective/collective.h"
#include "comm/collective/hierarchical.h"

namespace quire {

// Use both only between MPI_Init and MPI_Finalize, from one thread.

/// Makes a flat collective over MPI alone: every rank gathers the parts of all others.
std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size);

/// Makes the exchange among the leaders of the hosts; returns null on ranks that do not lead. Collective call of all
/// ranks.
std::unique_ptr<LeaderExchange> MakeMpiLeaderExchange(bool leads);

}  // namespace quire
