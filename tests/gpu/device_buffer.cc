#include "simt/device_buffer.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace quire::simt {

namespace {

constexpr size_t kLarge = size_t{1} << 30, kPoolBytes = size_t{1} << 29;

std::byte* HostMemory(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%zu bytes of page-locked memory for a test: %s\n", bytes, cudaGetErrorString(status));
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(data);
}

/// One reservation that is dealt out and taken back by powers of two. Where kernels of several threads wait for each
/// other, nobody may ask the runtime for memory: it can wait for all kernels first.
class Pool {
 public:
  static Pool& Get() {
    static Pool pool;
    return pool;
  }
  std::byte* Take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t size = std::bit_ceil(std::max<size_t>(bytes, 256));
    auto& free = free_[size];
    if (!free.empty()) {
      std::byte* data = free.back();
      free.pop_back();
      return data;
    }
    if (used_ + size > kPoolBytes) throw std::bad_alloc();
    used_ += size;
    return memory_ + used_ - size;
  }
  void Return(std::byte* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    free_[std::bit_ceil(std::max<size_t>(bytes, 256))].push_back(data);
  }

 private:
  std::mutex mutex_;
  std::byte* memory_ = HostMemory(kPoolBytes);
  size_t used_ = 0;
  std::map<size_t, std::vector<std::byte*>> free_;
};

/// Pages that nobody touches do not exist.
std::byte* ManagedMemory(size_t bytes) {
  size_t free = 0, total = 0;
  void* data = nullptr;
  cudaError_t status = cudaMemGetInfo(&free, &total);
  if (status == cudaSuccess && bytes > free / 4) status = cudaErrorMemoryAllocation;
  if (status == cudaSuccess) status = cudaMallocManaged(&data, bytes, cudaMemAttachGlobal);
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%zu bytes of managed memory for a test (%zu are free): %s\n", bytes, free,
                 cudaGetErrorString(status));
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(data);
}

HostDeviceBytes::Kind KindFor(size_t bytes) {
  if (std::getenv("QUIRE_ASYNCHRONOUS_LAUNCHES") != nullptr) return HostDeviceBytes::Kind::kPooled;
  return bytes >= kLarge ? HostDeviceBytes::Kind::kManaged : HostDeviceBytes::Kind::kExact;
}

}  // namespace

HostDeviceBytes::HostDeviceBytes(size_t bytes) : bytes_(std::max<size_t>(bytes, 16)), kind_(KindFor(bytes)) {
  switch (kind_) {
    case Kind::kExact:
      data_ = HostMemory(bytes_);
      break;
    case Kind::kPooled:
      data_ = Pool::Get().Take(bytes_);
      break;
    case Kind::kManaged:
      data_ = ManagedMemory(bytes_);
      return;  // fresh pages are zero
  }
  std::memset(data_, 0, bytes_);
}

HostDeviceBytes::~HostDeviceBytes() {
  if (data_ == nullptr) return;
  switch (kind_) {
    case Kind::kExact:
      cudaFreeHost(data_);
      break;
    case Kind::kPooled:
      Pool::Get().Return(data_, bytes_);
      break;
    case Kind::kManaged:
      cudaFree(data_);
      break;
  }
}

}  // namespace quire::simt
