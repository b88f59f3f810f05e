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

/// The GPUs of this host that this process can use.
struct Accelerators {
  int count = 0;
  std::string problem;  // the reason why `count` is 0; otherwise empty
};

/// Finds the GPUs that this build can use. The build chooses between two implementations: backend_with_cuda.cc and
/// backend_without_cuda.cc.
Accelerators FindAccelerators();

/// Makes an engine and owns the resources that the engine needs. The backend must outlive the engine.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<RankEngine> MakeEngine() = 0;  // every rank must call it, once
};

/// Returns the memory that the engine of each rank would take on the backend that the coordinator chose. Works on hosts
/// without the device, too.
std::vector<RankMemory> MemoryOfRanks(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign);

/// Makes the backend that the coordinator chose. Every rank must call it. Calls `progress` with the bytes loaded so far
/// and the total bytes of the weights.
std::unique_ptr<Backend> MakeBackend(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign,
                                     MpiBootstrap& mpi, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace quire
