#pragma once

#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

/// Returns cap * tanh(x / cap). NaN stays NaN.
inline Vec SoftCap(Vec x, float cap) { return cap - (2.0f * cap) / (Exp(x * (2.0f / cap)) + 1.0f); }

/// Caps whole vectors of numbers from `begin` on (the start of a vector) until `end` is reached.
inline void SoftCapAll(float* numbers, int64_t begin, int64_t end, float cap) {
  for (int64_t i = begin; i < end; i += kLanes) Store(numbers + i, SoftCap(Load(numbers + i), cap));
}

}  // namespace quire::kernels::QUIRE_ISA
