#pragma once

#include <memory>

namespace quire::kernels {

class ThreadPool;

/// Where CPU kernels run: a fixed set of threads that share the work of one op at a time.
/// Every op returns when its result is complete. No result depends on the number of threads.
class CpuStream {
 public:
  /// num_threads >= 1; the calling thread counts as one of them.
  explicit CpuStream(int num_threads);
  ~CpuStream();
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  ThreadPool& pool() const { return *pool_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
};

/// Where CUDA kernels run: a cudaStream_t of the current device, null for the default stream. Ops return once their
/// launches are queued; whatever they point at must live until those have run.
struct CudaStream {
  void* handle = nullptr;
};

/// Name of the instruction set the CPU kernels use: "avx512amx", "avx512vnni", "avx512", "avxvnni", "avx2" or
/// "baseline". Chosen once from the processor; the environment variable QUIRE_ISA may name a lesser one.
const char* CpuIsaName();

}  // namespace quire::kernels
