#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace quire::simt {

/// Records, for each byte of an allocation, which thread block wrote it last. Untouched pages take no memory.
class Writers {
 public:
  explicit Writers(size_t bytes);
  ~Writers();
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Returns the stamp of a byte's writer: twice the block's number, plus 1 for an atomic operation; 0 if no kernel has
  /// written the byte. Block numbers start at 1 and rise over all launches of an OS thread.
  uint32_t* at(size_t offset) const { return stamps_ + offset; }

 private:
  size_t bytes_;
  uint32_t* stamps_;
};

/// The address range of one allocation, [begin, end).
struct Range {
  uintptr_t begin = 0, end = 0;
  // True for memory of another device. The emulator delivers a plain write to such memory only when a release orders it
  // (Executor::Release) or when the launch ends.
  bool remote = false;
  // True once a kernel has written into the range, or after MarkWritten. A kernel may read a range that nothing has
  // written, such as weights, before it waits for the kernel before it.
  bool written = false;
  std::shared_ptr<Writers> writers = nullptr;  // null until a kernel writes
};

/// Registers the "device memory" of the calling thread. Kernels may touch only registered memory.
void RegisterGlobal(Range range);
void UnregisterGlobal(uintptr_t begin);
/// Returns the allocation that holds `address` or ends at it; an empty range if there is none.
Range& FindGlobal(uintptr_t address);
/// Treats the allocation that holds `data` as if an earlier kernel had written it.
void MarkWritten(const void* data);

/// Allocates and registers zeroed bytes from the system. Untouched pages take no memory, so that a pool may be as large
/// as a real one.
class GlobalBytes {
 public:
  explicit GlobalBytes(size_t bytes);
  ~GlobalBytes();
  GlobalBytes(GlobalBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  GlobalBytes& operator=(GlobalBytes&&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

}  // namespace quire::simt
