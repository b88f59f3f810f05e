#pragma once

#include <cstdint>

#include "kernels/cpu/isa/unrolled.h"

namespace quire::kernels::QUIRE_ISA {

/// Begins to bring memory into the cache before its turn. The processor does so by itself only within a page. (What is
/// wanted later than that comes faster into the second-level cache: NextPanels.)
QUIRE_INLINE inline void Fetch(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at);
}

}  // namespace quire::kernels::QUIRE_ISA
