#pragma once

#include "kernels/cpu/isa/amx/span_tiles.h"

// The values of a span as tiles.
namespace quire::kernels::QUIRE_ISA {

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

  /// Returns a function that loads, for i < 32, a vector of dimensions of the values of slot first_slot + i.
  auto Of(int64_t first_slot, int64_t vector) const {
    return [this, first_slot, vector](int64_t i)
               QUIRE_INLINE { return LoadNumbers(at[first_slot + i] + vector * step[first_slot + i]); };
  }

  Visible slots;
  const Half* at[PadToSteps(kMaxBlockSize)];
  int64_t step[PadToSteps(kMaxBlockSize)];  // numbers between vectors
};

/// Returns whether all of a span's slots are visible and their number is a multiple of 32.
inline bool IsWhole(const Span<Half>& span, Visible visible) {
  return visible.begin == 0 && visible.end == span.slots && span.slots % kPairedNumbers == 0;
}

/// The values of a whole span, for WriteValues.
class WholeValues {
 public:
  explicit WholeValues(const Span<Half>& span) : slots{0, span.slots}, dim_(span.dim) {
    int64_t block = 0, of_block = 0;
    for (int64_t vector = 0; vector * kLanes < span.slots; ++vector) {
      at_[vector] = span.values[block] + of_block * span.dim;
      if ((of_block += kLanes) == span.block_size) of_block = 0, ++block;
    }
  }

  auto Of(int64_t first_slot, int64_t vector) const {
    const Half* low = at_[first_slot / kLanes] + vector * kLanes;
    const Half* high = at_[first_slot / kLanes + 1] + vector * kLanes;
    return [low, high, dim = dim_](int64_t i)
               QUIRE_INLINE { return LoadNumbers(i < kLanes ? low + i * dim : high + (i - kLanes) * dim); };
  }

  Visible slots;

 private:
  int64_t dim_;
  const Half* at_[kMostVectors];  // per vector of slots
};

/// Writes a vector of dimensions of the slots' values as tiles, 32 slots at a time. Returns whether all numbers were
/// finite. If they were not, writes the tiles a second time (`finite_only`), with 0 in place of the numbers that are
/// not finite. For each 32 slots of a pass, calls beside(third) before each third of a tile's rows.
template <bool finite_only = false, class Values, class Beside>
QUIRE_INLINE inline bool WriteValues(const Values& rows, int64_t vector, std::byte* to, const Beside& beside) {
  Vec rests = {};
  for (int64_t step = rows.slots.begin / kPairedNumbers; step * kPairedNumbers < rows.slots.end; ++step) {
    std::byte* tile = to + step * kTwoTerms * kTileBytes;
    const auto value = rows.Of(step * kPairedNumbers, vector);
    EachTileRow(
        [&](int64_t i) QUIRE_INLINE {
          Vec low = value(i), high = value(i + kLanes);
          if constexpr (finite_only) {
            low = low - low == 0.0f ? low : Vec{};
            high = high - high == 0.0f ? high : Vec{};
          }
          StorePairs(SplitPairs<false>(low, high, &rests), tile + i * kPairBytes, kTileBytes);
        },
        beside);
  }
  const bool finite = Sum(rests - rests) == 0.0f;
  if constexpr (!finite_only) {
    if (!finite) WriteValues<true>(rows, vector, to, beside);
  }
  return finite;
}

}  // namespace quire::kernels::QUIRE_ISA
