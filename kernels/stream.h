#pragma once

#include <memory>

namespace quire::kernels {

class ThreadPool;

/// A fixed set of threads that share the work of one CPU op at a time. Every op returns when its result is complete.
/// No result depends on the number of threads.
class CpuStream {
 public:
  /// `num_threads` includes the calling thread, and is at least 1.
  explicit CpuStream(int num_threads);
  ~CpuStream();
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  ThreadPool& pool() const { return *pool_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
};

/// A CUDA stream: a cudaStream_t of the current device; null is the default stream. Ops return once their launches are
/// queued. Memory that an op uses must live until its launches have run.
struct CudaStream {
  void* handle = nullptr;
};

/// Returns the instruction set of the CPU kernels: "avx512amx", "avx512vnni", "avx512", "avxvnni", "avx2" or
/// "baseline". Chosen once by the processor; the environment variable QUIRE_ISA may name a lesser set.
const char* CpuIsaName();

}  // namespace quire::kernels
