#pragma once

#include "kernels/cpu/isa/amx/terms.h"
#include "kernels/cpu/isa/kv_panels.h"

// Keys and values of a span of an fp16 cache as tiles of bf16 terms. An fp16 number has 11 significant bits and a bf16
// term has 8, so two terms are exact.
namespace quire::kernels::QUIRE_ISA {

/// The tiles of a span, upper terms before lower ones. A step is the 32 numbers that one AMX instruction multiplies and
/// adds up for each result: 32 dimensions for keys, 32 slots for values.
struct SpanTiles {
  std::byte* keys;    // [padded slots / 16, head_dim / 32, term] tiles of [pairs of dimensions, slots]
  std::byte* values;  // [head_dim / 16, padded slots / 32, term] tiles of [pairs of slots, dimensions]
  int64_t dim, slots;

  std::byte* Keys(int64_t vector) const { return keys + vector * (dim / kPairedNumbers) * kTwoTerms * kTileBytes; }
  std::byte* Values(int64_t vector) const {
    return values + vector * (slots / kPairedNumbers) * kTwoTerms * kTileBytes;
  }
};

constexpr int64_t PadToSteps(int64_t n) { return (n + kPairedNumbers - 1) / kPairedNumbers * kPairedNumbers; }
inline int64_t BytesOfSpanTiles(const PagedAttentionParams& p) {
  return PadToSteps(SlotsOfSpan(p.cache)) * p.cache.head_dim * kTwoTerms * kTwoTerms * 2;
}

inline SpanTiles CarveSpanTiles(const PagedAttentionParams& p, std::byte* scratch) {
  const int64_t slots = PadToSteps(SlotsOfSpan(p.cache));
  return {scratch, scratch + slots * p.cache.head_dim * kTwoTerms * 2, p.cache.head_dim, slots};
}

/// Calls row(i) for the 16 rows of a tile. Calls beside(third), with third = 0, 1 or 2, before each third of the rows.
template <class Row, class Beside>
QUIRE_INLINE inline void EachTileRow(const Row& row, const Beside& beside) {
  Unrolled<kTermProducts>([&](auto third) QUIRE_INLINE {
    beside(third);
    for (int64_t i = kTileRows * third / kTermProducts; i < kTileRows * (third + 1) / kTermProducts; ++i) row(i);
  });
}

/// Writes the keys of a vector of slots as tiles of bf16 terms. For each 32 dimensions, calls beside(third) before each
/// third of a tile's rows. Callers prefetch and multiply in beside().
template <class Beside>
QUIRE_INLINE inline void WriteKeys(const Span<Half>& span, int64_t vector, std::byte* to, const Beside& beside) {
  for (int64_t step = 0; step < span.dim / kPairedNumbers; ++step) {
    const Half* from = span.keys[vector] + step * kPairedNumbers * span.block_size;
    std::byte* tile = to + step * kTwoTerms * kTileBytes;
    EachTileRow(
        [&](int64_t i) QUIRE_INLINE {
          const Half* low = from + i * span.block_size;
          StorePairs(SplitPairs<false>(LoadNumbers(low), LoadNumbers(low + kLanes * span.block_size)),
                     tile + i * kPairBytes, kTileBytes);
        },
        beside);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
