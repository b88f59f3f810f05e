#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace quire::simt {

/// Zeroed bytes that host and device access at the same address: page-locked host memory of exactly this size, so that
/// compute-sanitizer sees accesses beyond the end. For gigabytes, only addresses are reserved: Open makes pages, and an
/// access to any other page ends the process. The constructor throws std::bad_alloc when memory is short.
class HostDeviceBytes {
 public:
  /// kExact: page-locked memory of exactly this size. kSparse, for gigabytes: only addresses; Open makes pages.
  /// kPooled, when QUIRE_ASYNCHRONOUS_LAUNCHES is set: bytes of one reservation.
  enum class Kind { kExact, kPooled, kSparse };

  explicit HostDeviceBytes(size_t bytes);
  ~HostDeviceBytes();
  HostDeviceBytes(HostDeviceBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        kind_(other.kind_),
        opened_(std::move(other.opened_)) {}
  HostDeviceBytes& operator=(HostDeviceBytes&&) = delete;

  std::byte* data() const { return data_; }
  /// Makes the pages of bytes [begin, begin + count) exist. Each page may be opened once; small buffers are always
  /// open.
  void Open(size_t begin, size_t count);

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
  Kind kind_;
  std::vector<std::byte*> opened_;  // the first page of each run that Open locked
};

/// The device's counterpart of tests/simt/device_buffer.h. Launches are synchronous (tests/gpu/main.cc), so that the
/// host may read an op's output as soon as the op has returned.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(T)), count_(static_cast<size_t>(count)) {}
  DeviceBuffer(int64_t count, T fill) : DeviceBuffer(count) { std::fill_n(data(), count_, fill); }
  DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(static_cast<int64_t>(values.size())) {  // NOLINT: implicit
    std::copy(values.begin(), values.end(), data());
  }

  T* data() const { return reinterpret_cast<T*>(bytes_.data()); }
  int64_t size() const { return static_cast<int64_t>(count_); }
  T& operator[](int64_t i) const { return data()[i]; }
  std::span<T> span() const { return {data(), count_}; }

  void Open(int64_t begin, int64_t count) {
    bytes_.Open(static_cast<size_t>(begin) * sizeof(T), static_cast<size_t>(count) * sizeof(T));
  }

 private:
  HostDeviceBytes bytes_;
  size_t count_;
};

/// Does nothing: only the emulator distinguishes written memory from zeroed memory.
inline void MarkWritten(const void*) {}

}  // namespace quire::simt
