#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace quire::simt {

/// Zeroed bytes that the host and the device reach under one address: page-locked host memory, exactly as much, so that
/// compute-sanitizer sees what passes its end. Of gigabytes only addresses are reserved; pages exist where Open was
/// called, and touching another one ends the process. Throws std::bad_alloc.
class HostDeviceBytes {
 public:
  /// kPooled, with QUIRE_ASYNCHRONOUS_LAUNCHES set: from one reservation.
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
  /// Makes the pages of bytes [begin, begin + count) exist. A page is opened once; all of small buffers are open.
  void Open(size_t begin, size_t count);

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
  Kind kind_;
  std::vector<std::byte*> opened_;  // where each run of pages begins that Open locked
};

/// What tests/simt/device_buffer.h is to the emulator. Launches are synchronous (tests/gpu/main.cc), so that the host
/// may read what an op wrote as soon as it has returned.
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

/// Only the emulator tells written memory from memory that is merely zero.
inline void MarkWritten(const void*) {}

}  // namespace quire::simt
