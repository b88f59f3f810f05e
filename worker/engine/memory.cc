#include "worker/engine/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/base/error.h"

namespace quire {

HostMemory::HostMemory(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) Fail("cannot reserve {} bytes of memory: {}", bytes, std::strerror(errno));
  ::madvise(data, bytes, MADV_HUGEPAGE);  // a hint: failure is ignored
  data_ = static_cast<std::byte*>(data);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace quire
