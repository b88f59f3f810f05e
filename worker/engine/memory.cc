#include "worker/engine/memory.h"

#include <sys/mman.h>
#include <unistd.h>

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

void HostMemory::GiveBack(size_t offset, size_t bytes) {
  QUIRE_CHECK(bytes <= size_ && offset <= size_ - bytes, "{} bytes from {} on of {}", bytes, offset, size_);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace quire
