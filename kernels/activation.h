#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// What an MLP does to each number x, or to those of its gate.
enum class Activation : uint8_t {
  kSilu,      // x / (1 + exp(-x))
  kGelu,      // x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  // x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x^3), which is x / (1 + exp(-2 u))
  kRelu,      // max(x, 0)
  kRelu2,     // max(x, 0)^2
  /// For gates only: g / (1 + exp(-kClampedSlope * g)) * (u + 1), of g the gate or at most the limit, and of u the up
  /// or what is nearest to it within the limit on both sides.
  kClampedSilu,
};

inline constexpr float kClampedSlope = 1.702f;

/// 2 u of kGeluTanh is x * (kGeluLinear + kGeluCubic * x^2).
inline constexpr float kGeluLinear = 1.5957691216057308f, kGeluCubic = 0.07135481627159759f;

/// rows[t, i] = activation(rows[t, i] + bias[i]), the sum in fp32. Batch-invariant.
struct ActivateParams {
  NumberType dtype;  // CPU: kF32; CUDA: a float (IsFloat), and then rows are multiples of 16 bytes, and aligned so
  void* rows;        // [num_tokens, columns]
  const void* bias;  // [columns], or null
  int64_t num_tokens;
  int64_t columns;
  Activation activation;
};
void Activate(const CpuStream& stream, const ActivateParams& params);
void Activate(const CudaStream& stream, const ActivateParams& params);

}  // namespace quire::kernels
