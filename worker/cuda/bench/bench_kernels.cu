#include <cuda_profiler_api.h>

#include <simt/device.cuh>

#include "kernels/check.h"
#include "worker/cuda/bench/bench_kernels.h"

namespace quire::bench {

namespace {

constexpr int kBlocksPerSm = 8;
constexpr int kInFlight = 8;  // 16-byte accesses in flight per thread
using Piece = simt::Vec<uint32_t, 4>;

/// Mixes the bits of x by splitmix64's finalizer: neighbouring inputs give unrelated outputs.
__device__ uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <class T>
struct FillKernel {
  struct Params {
    T* out;
    int64_t count;
    float spread;
    uint64_t seed;
  };
  static constexpr int kThreads = 256;

  __device__ static void Run(const Params& p) {
    const simt::Global<T> out(p.out);
    const int64_t step = simt::GridX() * kThreads;
    for (int64_t i = simt::BlockX() * kThreads + simt::ThreadX(); i < p.count; i += step) {
      const uint64_t bits = Mix(p.seed + static_cast<uint64_t>(i));
      const float unit = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f;
      out[i] = simt::FromFloat<T>(p.spread * unit);
    }
  }
};

struct CopyKernel {
  struct Params {
    uint32_t* to;
    const uint32_t* from;
    int64_t pieces;
  };
  static constexpr int kThreads = 512;

  __device__ static void Run(const Params& p) {
    const int64_t step = simt::GridX() * kThreads * kInFlight;
    for (int64_t first = simt::BlockX() * kThreads * kInFlight + simt::ThreadX(); first < p.pieces; first += step) {
      Piece pieces[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t i = first + k * kThreads;
        if (i < p.pieces) pieces[k] = simt::LoadVec<4>(p.from, 4 * i);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t i = first + k * kThreads;
        if (i < p.pieces) simt::StoreVec(p.to, 4 * i, pieces[k]);
      }
    }
  }
};

struct ReadKernel {
  struct Params {
    const uint32_t* from;
    int64_t pieces;
    uint32_t* sink;
  };
  static constexpr int kThreads = 512;

  __device__ static void Run(const Params& p) {
    uint32_t all = ~0u;
    const int64_t step = simt::GridX() * kThreads * kInFlight;
    for (int64_t first = simt::BlockX() * kThreads * kInFlight + simt::ThreadX(); first < p.pieces; first += step) {
      Piece pieces[kInFlight] = {};
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t i = first + k * kThreads;
        if (i < p.pieces) pieces[k] = simt::LoadVec<4>(p.from, 4 * i);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) all &= pieces[k].v[0] & pieces[k].v[1] & pieces[k].v[2] & pieces[k].v[3];
    }
    // Random data does not have all bits set. The compiler cannot know this, so it does not remove the loads.
    if (all == ~0u) p.sink[0] = all;
  }
};

template <class T>
void Fill(const kernels::CudaStream& stream, void* data, int64_t count, float spread, uint64_t seed) {
  using Kernel = FillKernel<T>;
  const int64_t blocks = simt::Min<int64_t>((count + Kernel::kThreads - 1) / Kernel::kThreads, 4096);
  if (blocks == 0) return;
  simt::Launch<Kernel>({blocks}, Kernel::kThreads, 0, stream, {static_cast<T*>(data), count, spread, seed});
}

}  // namespace

void FillRandom(const kernels::CudaStream& stream, void* data, int64_t count, NumberType dtype, float spread,
                uint64_t seed) {
  switch (dtype) {
    case NumberType::kF32:
      return Fill<float>(stream, data, count, spread, seed);
    case NumberType::kF16:
      return Fill<simt::Half>(stream, data, count, spread, seed);
    case NumberType::kBF16:
      return Fill<simt::BFloat16>(stream, data, count, spread, seed);
    case NumberType::kFp8E4M3:
      return Fill<simt::Fp8E4M3>(stream, data, count, spread, seed);
    default:
      QUIRE_KERNEL_CHECK(!"random numbers are fp32, fp16, bf16 or E4M3");
  }
}

void StreamCopy(const kernels::CudaStream& stream, void* to, const void* from, int64_t bytes, int num_sms) {
  QUIRE_KERNEL_CHECK(bytes % 16 == 0);
  simt::Launch<CopyKernel>({num_sms * kBlocksPerSm}, CopyKernel::kThreads, 0, stream,
                           {static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), bytes / 16});
}

void StreamRead(const kernels::CudaStream& stream, const void* from, int64_t bytes, uint32_t* sink, int num_sms) {
  QUIRE_KERNEL_CHECK(bytes % 16 == 0);
  simt::Launch<ReadKernel>({num_sms * kBlocksPerSm}, ReadKernel::kThreads, 0, stream,
                           {static_cast<const uint32_t*>(from), bytes / 16, sink});
}

void BeginProfile() { simt::CheckCuda(cudaProfilerStart(), "starting the profiler"); }
void EndProfile() { simt::CheckCuda(cudaProfilerStop(), "stopping the profiler"); }

}  // namespace quire::bench
