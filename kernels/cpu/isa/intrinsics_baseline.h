#pragma once

#include "kernels/cpu/isa/intrinsics_128.h"

namespace quire::kernels::QUIRE_ISA {

inline constexpr ByteProducts kByteProducts = ByteProducts::kNone;
using QuadSum = IntVec;

}  // namespace quire::kernels::QUIRE_ISA

#include "kernels/cpu/isa/byte_quads.h"
