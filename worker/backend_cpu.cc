// A build without CUDA.
#include "comm/error.h"
#include "worker/backend.h"
#include "worker/cpu_backend.h"

namespace quire {

Accelerators FindAccelerators() {
  return {0, "this build has no CUDA (no toolkit was there when it was built; see QUIRE_CUDA)"};
}

std::unique_ptr<Backend> MakeBackend(const ModelFiles& files, const EngineSizes& sizes, const AssignMessage& assign,
                                     MpiBootstrap& mpi, const std::function<void(int64_t, int64_t)>&) {
  if (assign.backend != "cpu") Fail("backend {}: {}", assign.backend, FindAccelerators().problem);
  return MakeCpuBackend(files, sizes, mpi);
}

}  // namespace quire
