#pragma once

namespace quire::kernels {

/// Where CUDA kernels run: a cudaStream_t of the current device, null for the default stream. Ops return once their
/// launches are queued; whatever they point at must live until those have run.
struct CudaStream {
  void* handle = nullptr;
};

}  // namespace quire::kernels
