#pragma once

#include "kernels/cpu/isa/amx/attention_rows.h"

// Makes outputs NaN where rows see values that are not finite. The tiles hold zeros in place of such values, because
// AMX multiplies every row of a tile by every slot, and 0 * infinity is NaN.
namespace quire::kernels::QUIRE_ISA {

/// Adds v - v to each row's output for every value v that the row sees: 0 for finite numbers, NaN for others.
inline void Spoil(const Sight& sight, const Span<Half>& span, const Rows& rows) {
  for (int64_t r = 0; r < sight.count; ++r) {
    float* const out = rows.out + (sight.row + r) * rows.dim;
    for (int64_t slot = sight.begin[r]; slot < sight.end[r]; ++slot) {
      const int64_t block = slot / span.block_size;
      const Half* values = span.values[block] + (slot - block * span.block_size) * span.dim;
      for (int64_t d = 0; d < rows.dim; d += kLanes) {
        const Vec v = LoadNumbers(values + d);
        Store(out + d, Load(out + d) + (v - v));
      }
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
