#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective/mpi_bootstrap.h"
#include "comm/model/model_files.h"
#include "comm/wire/messages.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/rank_memory.h"

namespace quire {

/// GPUs of this host that the process can compute on.
struct Accelerators {
  int count = 0;
  std::string problem;  // why there are none
};

/// What this build can compute on. There are two implementations: with CUDA (backend_with_cuda.cc) and without
/// (backend_without_cuda.cc).
Accelerators FindAccelerators();

/// An engine and what it needs to live.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<RankEngine> MakeEngine() = 0;  // collective call; once; the backend outlives the engine
};

/// What the engine of each rank would take, on the backend that the coordinator chose. No device need be there.
std::vector<RankMemory> MemoryOfRanks(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign);

/// The backend that the coordinator chose. Collective call. `progress` is told bytes loaded and bytes in all.
std::unique_ptr<Backend> MakeBackend(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign,
                                     MpiBootstrap& mpi, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace quire
