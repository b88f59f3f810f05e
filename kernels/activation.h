#pragma once

namespace quire::kernels {

/// What the gate of an MLP goes through.
enum class Activation {
  kSilu,      // x / (1 + exp(-x))
  kGeluTanh,  // x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x^3), which is x / (1 + exp(-2 u))
};

/// 2 u of kGeluTanh is x * (kGeluLinear + kGeluCubic * x^2).
inline constexpr float kGeluLinear = 1.5957691216057308f, kGeluCubic = 0.07135481627159759f;

}  // namespace quire::kernels
