#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The activation function of an MLP, applied to each number x, or to the gates of a gated MLP.
enum class Activation : uint8_t {
  kSilu,      // x / (1 + exp(-x))
  kGelu,      // x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  // x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x^3), which is x / (1 + exp(-2 u))
  kRelu,      // max(x, 0)
  kRelu2,     // max(x, 0)^2
  /// Gated MLPs only: g / (1 + exp(-kClampedSlope * g)) * (u + 1), with g = min(gate, limit) and u = up clamped to
  /// [-limit, limit].
  kClampedSilu,
};

inline constexpr float kClampedSlope = 1.702f;

/// For kGeluTanh: 2 u = x * (kGeluLinear + kGeluCubic * x^2).
inline constexpr float kGeluLinear = 1.5957691216057308f, kGeluCubic = 0.07135481627159759f;

/// rows[t, i] = activation(rows[t, i] + bias[i]), with the sum in fp32. Batch-invariant.
struct ActivateParams {
  NumberType dtype;  // CPU: kF32; CUDA: any IsFloat type; rows are then multiples of 16 bytes and aligned to 16
  void* rows;        // [num_tokens, columns]
  const void* bias;  // [columns]; null: no bias
  int64_t num_tokens;
  int64_t columns;
  Activation activation;
};
void Activate(const CpuStream& stream, const ActivateParams& params);
void Activate(const CudaStream& stream, const ActivateParams& params);

}  // namespace quire::kernels
