#pragma once

// Has the device's own definitions, except that Launch returns only when the kernel has run. This is for tests of
// operations that several host threads call at the same time. CUDA_LAUNCH_BLOCKING, a switch for the whole process,
// would not do, because it could serialise kernels that wait for each other.

#define Launch LaunchAndReturn
#include_next <simt/device.cuh>
#undef Launch

namespace quire::simt {

template <class Kernel>
void Launch(Dim3 grid, int threads, int64_t shared_bytes, const kernels::CudaStream& stream,
            const typename Kernel::Params& params) {
  LaunchAndReturn<Kernel>(grid, threads, shared_bytes, stream, params);
  CheckCuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.handle)), "a kernel of a test");
}

}  // namespace quire::simt
