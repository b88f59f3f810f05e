#pragma once

#include "worker/serve/backend.h"

namespace quire {

std::vector<RankMemory> MemoryOfCpuRanks(const ModelFiles& files, const EngineSizes& sizes);

/// Makes the CPU engine's backend, with collectives over shared memory or MPI, and binds the process to its NUMA nodes.
/// Every rank must call it.
std::unique_ptr<Backend> MakeCpuBackend(const ModelFiles& files, const EngineSizes& sizes, MpiBootstrap& mpi);

}  // namespace quire
