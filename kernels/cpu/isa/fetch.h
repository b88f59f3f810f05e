#pragma once

#include <cstdint>

#include "kernels/cpu/isa/unrolled.h"

namespace quire::kernels::QUIRE_ISA {

/// Prefetches memory into the first-level cache; the hardware prefetches only within a page. For data that is needed
/// later, NextPanels prefetches into the second-level cache.
QUIRE_INLINE inline void Fetch(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at);
}

/// Prefetches the part of y that a tile will write, `rows` rows of `columns` numbers, while the tile is computed.
/// Results of many rows are larger than the second-level cache, and a store to a line that is in no cache waits for
/// memory.
inline void FetchForWriting(const float* y, int64_t y_stride, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, y += y_stride) {
    __builtin_prefetch(y, 1);
    __builtin_prefetch(y + columns - 1, 1);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
