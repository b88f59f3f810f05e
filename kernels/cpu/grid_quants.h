#pragma once

#include <cstddef>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// True for the types that DecodeGridQuants decodes; their superblocks have 256 numbers.
constexpr bool IsGridType(NumberType type) { return type >= NumberType::kIQ1_S && type <= NumberType::kTQ2_0; }

/// Decodes one superblock of iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, tq1_0 or tq2_0.
void DecodeGridQuants(NumberType type, const std::byte* in, float* out);

/// Converts one superblock to blocks of the type PackedType(type), with the same integers. Scales, and the minima of
/// iq1_s, are rounded to fp16. Returns false for types whose scales apply to fewer than 32 numbers.
bool KeepGridQuants(NumberType type, const std::byte* in, std::byte* out);

}  // namespace quire::kernels
