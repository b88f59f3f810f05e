#pragma once

#include "kernels/cpu/isa/amx/tile_rows.h"

// Numbers as sums of two bf16 terms, in pairs: a tile holds 32 numbers per row, number i beside number i + 16. Both
// factors of a product have this order, so it only decides which numbers are summed first.
namespace quire::kernels::QUIRE_ISA {

/// Numbers per row of a tile of bf16, and bytes per row and per tile.
inline constexpr int64_t kPairedNumbers = 32, kPairBytes = 4 * kLanes, kTileBytes = kTileRows * kPairBytes;
inline constexpr int kTwoTerms = 2, kTermProducts = 3;

typedef uint32_t WordVec __attribute__((vector_size(kLanes * 4)));

/// Two vectors of numbers as bf16 terms. The lower 16 bits of lane i hold number i of the first vector, the upper 16
/// bits number i of the second vector.
struct TermPairs {
  WordVec of[kTwoTerms];  // the upper terms, the lower terms
};

/// Splits each number of two vectors into two bf16 terms. With kRounds, the upper term is rounded to nearest, and the
/// sum of both terms is off by less than 2^-16 of the number, up or down. Without kRounds, the upper term is the
/// number's upper 16 bits, and the sum is exact for numbers with up to 16 significant bits, such as fp16. In this case
/// a lane of `rests` (may be null) becomes NaN if one of the lane's two numbers is not finite; a lane that is NaN stays
/// NaN.
template <bool kRounds>
QUIRE_INLINE inline TermPairs SplitPairs(Vec low, Vec high, Vec* rests = nullptr) {
  const auto upper = [](Vec v) QUIRE_INLINE {
    return (reinterpret_cast<WordVec>(v) + (kRounds ? 0x8000u : 0u)) & 0xffff0000u;
  };
  const auto join = [](WordVec a, WordVec b) QUIRE_INLINE { return a >> 16 | b; };
  const WordVec low_upper = upper(low), high_upper = upper(high);
  const Vec low_rest = low - reinterpret_cast<Vec>(low_upper), high_rest = high - reinterpret_cast<Vec>(high_upper);
  if (rests != nullptr) *rests = MulAdd(low_rest, high_rest, *rests);
  // Without kRounds the difference `rest` has at most eight significant bits, so its lower 16 bits are 0 already.
  const auto cut = [](Vec rest)
                       QUIRE_INLINE { return reinterpret_cast<WordVec>(rest) & (kRounds ? 0xffff0000u : 0xffffffffu); };
  return {{join(low_upper, high_upper), join(reinterpret_cast<WordVec>(low_rest), cut(high_rest))}};
}

/// Stores pairs as a row of two tiles, `term_bytes` apart.
QUIRE_INLINE inline void StorePairs(const TermPairs& pairs, std::byte* to, int64_t term_bytes) {
  Unrolled<kTwoTerms>([&](auto term)
                          QUIRE_INLINE { __builtin_memcpy(to + term * term_bytes, &pairs.of[term], sizeof(WordVec)); });
}

}  // namespace quire::kernels::QUIRE_ISA
