#include "simt/device_buffer.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
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

[[noreturn]] void Refuse(size_t bytes, const char* what, const char* why) {
  std::fprintf(stderr, "%zu bytes of %s for a test: %s\n", bytes, what, why);
  throw std::bad_alloc();
}

std::byte* HostMemory(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (status != cudaSuccess) Refuse(bytes, "page-locked memory", cudaGetErrorString(status));
  return static_cast<std::byte*>(data);
}

/// Hands out pieces of one reservation, with powers of two as sizes, and takes them back. While kernels of several
/// threads wait for each other, no thread may request memory from the runtime, because the runtime may wait for all
/// kernels first.
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

/// Reserves addresses without memory. Some tests touch two pages that lie tens of gigabytes apart. Neither device
/// memory nor managed memory could be that large on every machine.
std::byte* Addresses(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) Refuse(bytes, "addresses", std::strerror(errno));
  return static_cast<std::byte*>(data);
}

HostDeviceBytes::Kind KindFor(size_t bytes) {
  if (std::getenv("QUIRE_ASYNCHRONOUS_LAUNCHES") != nullptr) return HostDeviceBytes::Kind::kPooled;
  return bytes >= kLarge ? HostDeviceBytes::Kind::kSparse : HostDeviceBytes::Kind::kExact;
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
    case Kind::kSparse:
      data_ = Addresses(bytes_);
      return;  // Open makes the pages, filled with zeros
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
    case Kind::kSparse:
      for (std::byte* pages : opened_) cudaHostUnregister(pages);
      munmap(data_, bytes_);
      break;
  }
}

void HostDeviceBytes::Open(size_t begin, size_t count) {
  if (kind_ != Kind::kSparse) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t from = begin / page * page, bytes = (begin + count - from + page - 1) / page * page;
  std::byte* pages = data_ + from;
  if (mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0) Refuse(bytes, "a buffer's pages", std::strerror(errno));
  void* on_device = nullptr;
  cudaError_t status = cudaHostRegister(pages, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (status == cudaSuccess) {
    opened_.push_back(pages);
    status = cudaHostGetDevicePointer(&on_device, pages, 0);
  }
  if (status != cudaSuccess) Refuse(bytes, "a buffer's pages", cudaGetErrorString(status));
  if (on_device != pages) Refuse(bytes, "a buffer's pages", "the device has them at another address");
}

}  // namespace quire::simt
