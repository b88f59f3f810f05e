#pragma once

#include <cstddef>
#include <cstring>

namespace quire::kernels {

inline float GetHalf(const std::byte* in) {
  _Float16 half;
  std::memcpy(&half, in, sizeof(half));
  return static_cast<float>(half);
}

/// Stores x as fp16 and returns the rounded value.
inline float PutHalf(float x, std::byte* out) {
  const auto half = static_cast<_Float16>(x);
  std::memcpy(out, &half, sizeof(half));
  return static_cast<float>(half);
}

}  // namespace quire::kernels
