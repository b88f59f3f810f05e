#pragma once

#include "kernels/cpu/isa/amx/terms.h"
#include "kernels/cpu/isa/kv_panels.h"

// Keys and values of a span of an fp16 cache as tiles of bf16 terms. An fp16 number has 11 significant bits and a bf16
// term has 8, so two terms are exact.
namespace quire::kernels::QUIRE_ISA {

/// The tiles of a span, upper terms before lower ones. A step is the 32 numbers that an instruction multiplies:
/// dimensions of keys, slots of values.
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

/// Writes the keys of a vector of slots. Calls beside() after each pair of rows; callers prefetch in it.
template <class Beside>
QUIRE_INLINE inline void WriteKeys(const Span<Half>& span, int64_t vector, std::byte* to, const Beside& beside) {
  for (int64_t step = 0; step < span.dim / kPairedNumbers; ++step) {
    const Half* from = span.keys[vector] + step * kPairedNumbers * span.block_size;
    std::byte* tile = to + step * kTwoTerms * kTileBytes;
    for (int64_t i = 0; i < kLanes; ++i, from += span.block_size, tile += kPairBytes) {
      const Vec low = LoadNumbers(from), high = LoadNumbers(from + kLanes * span.block_size);
      StorePairs(SplitPairs<false>(low, high), tile, kTileBytes);
      beside();
    }
  }
}

/// The address of each slot's values in a span. Slots that are not visible have the address of zeros instead: their
/// weights are 0, and 0 * infinity would be NaN.
struct ValueRows {
  void Set(const Span<Half>& span, Visible visible) {
    static constexpr Half kZeros[kLanes] = {};
    slots = visible;
    int64_t block = 0, of_block = 0;
    for (int64_t slot = 0; slot < PadToSteps(span.slots); ++slot) {
      const bool is_visible = slot >= slots.begin && slot < slots.end;
      at[slot] = is_visible ? span.values[block] + of_block * span.dim : kZeros;
      step[slot] = is_visible ? kLanes : 0;
      if (++of_block == span.block_size) of_block = 0, ++block;
    }
  }

  Vec Load(int64_t slot, int64_t vector) const { return LoadNumbers(at[slot] + vector * step[slot]); }

  Visible slots;
  const Half* at[PadToSteps(kMaxBlockSize)];
  int64_t step[PadToSteps(kMaxBlockSize)];  // numbers between vectors
};

/// Writes a vector of dimensions of the values of all slots of the steps; with `finite_only`, 0 for numbers that are
/// not finite. Returns whether all are finite. Calls beside() after each pair of rows; callers prefetch in it.
template <bool finite_only = false, class Beside>
QUIRE_INLINE inline bool WriteValues(const ValueRows& rows, int64_t vector, std::byte* to, const Beside& beside) {
  WordVec spoilt = {};
  for (int64_t step = rows.slots.begin / kPairedNumbers; step * kPairedNumbers < rows.slots.end; ++step) {
    std::byte* tile = to + step * kTwoTerms * kTileBytes;
    for (int64_t i = 0; i < kLanes; ++i, tile += kPairBytes) {
      const int64_t slot = step * kPairedNumbers + i;
      Vec low = rows.Load(slot, vector), high = rows.Load(slot + kLanes, vector);
      if constexpr (finite_only) {
        low = low - low == 0.0f ? low : Vec{};
        high = high - high == 0.0f ? high : Vec{};
      }
      spoilt |= reinterpret_cast<WordVec>(low - low) | reinterpret_cast<WordVec>(high - high);
      StorePairs(SplitPairs<false>(low, high), tile, kTileBytes);
      beside();
    }
  }
  const bool finite = JoinLanes<uint32_t>(spoilt, [](auto a, auto b) { return a | b; }) == 0;
  if constexpr (!finite_only) {
    if (!finite) WriteValues<true>(rows, vector, to, beside);
  }
  return finite;
}

}  // namespace quire::kernels::QUIRE_ISA
