#pragma once

#include <cstddef>

namespace quire {

/// Zeroed anonymous memory, in huge pages where the system provides them. A page takes physical memory only once it
/// is touched.
class HostMemory {
 public:
  HostMemory() = default;
  explicit HostMemory(size_t bytes);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;

  /// Gives the whole pages of these bytes back to the system. The bytes of these pages read as zeros until they are
  /// written.
  void GiveBack(size_t offset, size_t bytes);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quire
