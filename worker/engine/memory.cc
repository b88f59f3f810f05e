#include "worker/engine/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "comm/base/error.h"

namespace quire {

HostMemory::HostMemory(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) Fail("cannot reserve {} bytes of memory: {}", bytes, std::strerror(errno));
  ::madvise(data, bytes, MADV_HUGEPAGE);  // best effort
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

namespace {

/// Page cache counts as used by the cgroup, but goes when memory is needed.
int64_t ReclaimableInCgroup() {
  int64_t bytes = 0, value = 0;
  std::ifstream stat("/sys/fs/cgroup/memory.stat");
  for (std::string key; stat >> key >> value;) {
    if (key == "inactive_file" || key == "active_file") bytes += value;
  }
  return bytes;
}

}  // namespace

int64_t AvailableHostMemory() {
  int64_t available = INT64_MAX;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    int64_t kilobytes = 0;
    meminfo >> kilobytes;
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") available = kilobytes * 1024;
  }
  int64_t limit = 0, used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && std::ifstream("/sys/fs/cgroup/memory.current") >> used) {
    available = std::min(available, std::max<int64_t>(0, limit - used + ReclaimableInCgroup()));
  }
  return available;
}

}  // namespace quire
