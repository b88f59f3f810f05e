#pragma once

#include <cstdint>

#include "kernels/cpu/isa/unrolled.h"

namespace quire::kernels::QUIRE_ISA {

/// Prefetches memory into the first-level cache; the hardware does so only within a page. Use NextPanels for data
/// needed later, which comes into the second-level cache faster.
QUIRE_INLINE inline void Fetch(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at);
}

}  // namespace quire::kernels::QUIRE_ISA
