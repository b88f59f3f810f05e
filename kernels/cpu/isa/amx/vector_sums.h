#pragma once

#include "kernels/cpu/isa/amx/attention_rows.h"

// Sums of tile products for one vector of slots or of dimensions, which callers may compute step by step.
namespace quire::kernels::QUIRE_ISA {

// Tile registers: kScores and kOut: sums; kX: the terms of queries or weights; kW: the terms of keys or values.
inline constexpr int kScores = 0, kOut = 1, kX = 2, kW = 4;

/// Adds the three products of terms of a step: upper with upper, lower with upper, upper with lower. The lower terms of
/// x begin `x_term` bytes after its upper terms, and the lower terms of w one tile after its upper terms.
template <int sum>
QUIRE_INLINE inline void AddTerms(const std::byte* x, int64_t x_term, const std::byte* w) {
  LoadTile<kX>(x, kPairBytes);
  LoadTile<kW>(w, kPairBytes);
  AddBFloats<sum, kX, kW>();
  LoadTile<kX + 1>(x + x_term, kPairBytes);
  AddBFloats<sum, kX + 1, kW>();
  LoadTile<kW + 1>(w + kTileBytes, kPairBytes);
  AddBFloats<sum, kX, kW + 1>();
}

/// The scores of a vector of slots, query r . key j, added up in steps of 32 dimensions.
class VectorOfScores {
 public:
  QUIRE_INLINE VectorOfScores(const Sight& sight, int64_t vector, const std::byte* keys, const Rows& rows)
      : query_(rows.Query(0, 0, sight.row)),
        keys_(keys),
        scores_(sight.Scores(vector, 0)),
        term_(rows.padded * kPairBytes),
        left_(rows.dim / kPairedNumbers) {
    ClearTile<kScores>();
  }

  QUIRE_INLINE void AddStep() {
    if (left_ == 0) return;
    AddTerms<kScores>(query_, term_, keys_);
    query_ += kTwoTerms * term_, keys_ += kTwoTerms * kTileBytes, --left_;
  }
  QUIRE_INLINE void End() {
    while (left_ > 0) AddStep();
    StoreTile<kScores>(scores_, kPairBytes);
  }

 private:
  const std::byte *query_, *keys_;
  float* scores_;
  int64_t term_, left_;
};

/// The outputs of a vector of dimensions, out[r, :] += sum over slots of weight * value, added up in steps of 32 slots.
class VectorOfOutputs {
 public:
  QUIRE_INLINE VectorOfOutputs(const Sight& sight, int64_t vector, const std::byte* values, const Rows& rows)
      : weights_(sight.Weights(sight.steps.begin)),
        values_(values + sight.steps.begin * kTwoTerms * kTileBytes),
        out_(rows.out + sight.row * rows.dim + vector * kLanes),
        stride_(rows.dim * static_cast<int64_t>(sizeof(float))),
        left_(sight.steps.end - sight.steps.begin) {
    LoadTile<kOut>(out_, stride_);
  }

  QUIRE_INLINE void AddStep() {
    if (left_ == 0) return;
    AddTerms<kOut>(weights_, kTileBytes, values_);
    weights_ += kTwoTerms * kTileBytes, values_ += kTwoTerms * kTileBytes, --left_;
  }
  QUIRE_INLINE void End() {
    while (left_ > 0) AddStep();
    StoreTile<kOut>(out_, stride_);
  }

 private:
  const std::byte *weights_, *values_;
  float* out_;
  int64_t stride_, left_;
};

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
