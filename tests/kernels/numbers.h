#pragma once

#include <cstdint>
#include <vector>

#include "comm/base/number_type.h"
#include "simt/device_buffer.h"
#include "tests/support/random.h"

namespace quire::kernels {

namespace reference {

/// Reads number `index` of an array of the type (fp32, fp16, bf16 or E4M3). WriteNumber rounds `value` to the type and
/// stores it.
double ReadNumber(const void* array, NumberType type, int64_t index);
void WriteNumber(void* array, NumberType type, int64_t index, double value);

}  // namespace reference

/// An array of a type in memory that kernels of the CPU and of a device may access; reads give fp64.
struct Numbers {
  Numbers(NumberType t, int64_t n) : type(t), count(n), bytes(n * ByteSize(t)) {}
  /// Returns random numbers between -size and size.
  static Numbers Of(NumberType type, int64_t count, test::Random& random, double size = 2);
  static Numbers Of(NumberType type, const std::vector<double>& values);

  void* data() const { return bytes.data(); }
  double operator[](int64_t i) const { return reference::ReadNumber(data(), type, i); }
  void Set(int64_t i, double value) const { reference::WriteNumber(data(), type, i, value); }
  std::vector<double> Slice(int64_t begin, int64_t n) const;
  std::vector<double> All() const { return Slice(0, count); }
  std::vector<float> Floats() const;

  NumberType type;
  int64_t count;
  simt::DeviceBuffer<std::byte> bytes;
};

}  // namespace quire::kernels
