#pragma once

#include "worker/serve/backend.h"

namespace quire {

std::vector<RankMemory> MemoryOfCpuRanks(const ModelFiles& files, const EngineSizes& sizes);

/// The engine on this host's processor, with collectives over MPI or shared memory. Collective call.
std::unique_ptr<Backend> MakeCpuBackend(const ModelFiles& files, const EngineSizes& sizes, MpiBootstrap& mpi);

}  // namespace quire
