#pragma once

#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

/// cap * tanh(x / cap). NaN stays one.
inline Vec SoftCap(Vec x, float cap) { return cap - (2.0f * cap) / (Exp(x * (2.0f / cap)) + 1.0f); }

/// Whole vectors of numbers from `begin`, which is the first of one, until all before `end` are capped.
inline void SoftCapAll(float* numbers, int64_t begin, int64_t end, float cap) {
  for (int64_t i = begin; i < end; i += kLanes) Store(numbers + i, SoftCap(Load(numbers + i), cap));
}

}  // namespace quire::kernels::QUIRE_ISA
