#include "worker/cuda/emulated_collective.h"

#include <cuda_runtime_api.h>

#include <span>

#include "comm/base/error.h"

namespace quire::test {

namespace {

void CheckCuda(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) Fail("{}: {}", doing, cudaGetErrorString(status));
}

/// Allocates device memory that is never freed: another rank may still access it until the process ends.
std::byte* Reserve(int64_t bytes) {
  void* data = nullptr;
  CheckCuda(cudaMalloc(&data, static_cast<size_t>(bytes)), "memory of a group");
  CheckCuda(cudaMemset(data, 0, static_cast<size_t>(bytes)), "memory of a group");
  CheckCuda(cudaDeviceSynchronize(), "memory of a group");
  return static_cast<std::byte*>(data);
}

struct Addresses {
  std::byte *arena, *staging;
};

}  // namespace

EmulatedCollective::EmulatedCollective(Collective& host) {
  group_.rank = host.rank();
  group_.size = host.size();
  group_.capacity = kCapacity;
  const Addresses mine{Reserve(kernels::OneShotArenaBytes(host.size(), kCapacity)), Reserve(kCapacity)};
  meeting_ = reinterpret_cast<float*>(Reserve(16));
  void* control = nullptr;
  CheckCuda(cudaHostAlloc(&control, kernels::kOneShotControlWords * sizeof(uint32_t), cudaHostAllocMapped),
            "control words");
  std::fill_n(static_cast<uint32_t*>(control), kernels::kOneShotControlWords, 0u);
  group_.control = static_cast<uint32_t*>(control);
  std::vector<Addresses> all(static_cast<size_t>(host.size()));
  const std::vector<size_t> counts(all.size(), sizeof(Addresses));
  host.AllGather(std::as_bytes(std::span(&mine, 1)), counts, std::as_writable_bytes(std::span(all)));
  for (size_t r = 0; r < all.size(); ++r) {
    group_.arenas[r] = all[r].arena;
    staging_.push_back(all[r].staging);
  }
}

void EmulatedCollective::AllReduceSum(void* data, int64_t count, NumberType type, void* stream) {
  QUIRE_CHECK(count * ByteSize(type) <= kCapacity, "{} elements", count);
  kernels::OneShotAllReduce({stream}, {group_, type, data, data, count});
}

void EmulatedCollective::AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) {
  norm.delta = partial;
  kernels::OneShotAllReduceRmsNorm({stream}, {group_, norm});
}

void EmulatedCollective::Meet(void* stream) {
  kernels::OneShotAllReduce({stream}, {group_, NumberType::kF32, meeting_, meeting_, 1});
}

void EmulatedCollective::AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) {
  QUIRE_CHECK(bytes_per_rank <= kCapacity, "{} bytes", bytes_per_rank);
  const auto copy = [&](void* to, const void* from) {
    CheckCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes_per_rank), cudaMemcpyDeviceToDevice,
                              static_cast<cudaStream_t>(stream)),
              "gathering");
  };
  copy(staging_[static_cast<size_t>(rank())], in);
  Meet(stream);
  for (size_t r = 0; r < staging_.size(); ++r)
    copy(static_cast<std::byte*>(out) + static_cast<int64_t>(r) * bytes_per_rank, staging_[r]);
  Meet(stream);  // all ranks have read: staging may change
}

void EmulatedCollective::Abort() { *static_cast<volatile uint32_t*>(group_.control) = 1; }

}  // namespace quire::test
