#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "simt/global_memory.h"

namespace quire::simt {

/// Allocates an array that kernels may touch and the test can read and write. The array is 0 at first. Untouched pages
/// take no memory, so the array may have the size of a real cache.
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

  /// Declares which elements of a buffer of gigabytes will be touched: on a device its other pages do not exist
  /// (tests/gpu/simt).
  void Open(int64_t /*begin*/, int64_t /*count*/) const {}

 private:
  GlobalBytes bytes_;
  size_t count_;
};

}  // namespace quire::simt
