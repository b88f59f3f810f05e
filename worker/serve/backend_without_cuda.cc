// Implements backend.h for a build without CUDA: the CPU only.
#include "comm/base/error.h"
#include "worker/serve/backend.h"
#include "worker/serve/cpu_backend.h"

namespace quire {

Accelerators FindAccelerators() { return {0, "this program was built without CUDA (QUIRE_CUDA)"}; }

namespace {

void CheckBackend(const AssignMessage& assign) {
  const BackendKind backend = assign.compute.backend;
  if (backend != BackendKind::kCpu) FailSettings("backend {}: {}", NameOf(backend), FindAccelerators().problem);
}

}  // namespace

std::vector<RankMemory> MemoryOfRanks(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign) {
  CheckBackend(assign);
  return MemoryOfCpuRanks(files, sizes);
}

std::unique_ptr<Backend> MakeBackend(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign,
                                     MpiBootstrap& mpi, const std::function<void(int64_t, int64_t)>&) {
  CheckBackend(assign);
  return MakeCpuBackend(files, sizes, mpi);
}

}  // namespace quire
