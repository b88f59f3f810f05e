#pragma once

#include "kernels/cpu/isa/amx/attention_rows.h"

// Sums of tile products for one vector of slots or of dimensions, which callers may compute step by step.
namespace quire::kernels::QUIRE_ISA {

// Tile registers: kScores and kOut: sums; kX: the terms of queries or weights; kW: the terms of keys or values.
inline constexpr int kScores = 0, kOut = 1, kX = 2, kW = 4;

/// Adds one of a step's three products of terms of x and w: upper * upper (`which` 0), lower * upper (1), or upper *
/// lower (2). Call it for 0, 1 and 2 in this order, because later products use tiles that earlier calls loaded. The
/// lower terms of x begin `x_term` bytes after the upper terms of x; the lower terms of w begin one tile after those of
/// w.
template <int sum>
QUIRE_INLINE inline void AddProduct(int which, const std::byte* x, int64_t x_term, const std::byte* w) {
  if (which == 0) {
    LoadTile<kX>(x, kPairBytes);
    LoadTile<kW>(w, kPairBytes);
    AddBFloats<sum, kX, kW>();
  } else if (which == 1) {
    LoadTile<kX + 1>(x + x_term, kPairBytes);
    AddBFloats<sum, kX + 1, kW>();
  } else {
    LoadTile<kW + 1>(w + kTileBytes, kPairBytes);
    AddBFloats<sum, kX, kW + 1>();
  }
}

/// A sum of products for a vector, added up in steps of 32 numbers.
template <int sum>
class VectorSum {
 public:
  QUIRE_INLINE VectorSum(const std::byte* x, int64_t x_term, int64_t x_step, const std::byte* w, int64_t steps)
      : x_(x), w_(w), x_term_(x_term), x_step_(x_step), left_(steps) {}

  /// Adds the next product. Successive calls must pass `which` = 0, 1, 2, 0, 1, 2, ...
  QUIRE_INLINE void Add(int which) {
    if (left_ == 0) return;
    AddProduct<sum>(which, x_, x_term_, w_);
    if (which < kTermProducts - 1) return;
    x_ += x_step_, w_ += kTwoTerms * kTileBytes, --left_;
  }
  /// Adds the steps that are left.
  QUIRE_INLINE void AddRest() {
    while (left_ > 0) Unrolled<kTermProducts>([&](auto which) QUIRE_INLINE { Add(which); });
  }

 private:
  const std::byte *x_, *w_;
  int64_t x_term_, x_step_, left_;
};

/// The scores of a vector of slots, query r . key j.
class VectorOfScores : public VectorSum<kScores> {
 public:
  QUIRE_INLINE VectorOfScores(const Sight& sight, int64_t vector, const std::byte* keys, const Rows& rows)
      : VectorSum(rows.Query(0, 0, sight.row), rows.padded * kPairBytes, kTwoTerms * rows.padded * kPairBytes, keys,
                  rows.dim / kPairedNumbers),
        scores_(sight.Scores(vector, 0)) {
    ClearTile<kScores>();
  }

  QUIRE_INLINE void End() {
    AddRest();
    StoreTile<kScores>(scores_, kPairBytes);
  }

 private:
  float* scores_;
};

/// The outputs of a vector of dimensions, out[r, :] += sum over slots of weight * value.
class VectorOfOutputs : public VectorSum<kOut> {
 public:
  QUIRE_INLINE VectorOfOutputs(const Sight& sight, int64_t vector, const std::byte* values, const Rows& rows)
      : VectorSum(sight.Weights(sight.steps.begin), kTileBytes, kTwoTerms * kTileBytes,
                  values + sight.steps.begin * kTwoTerms * kTileBytes, sight.steps.end - sight.steps.begin),
        out_(rows.out + sight.row * rows.dim + vector * kLanes),
        stride_(rows.dim * static_cast<int64_t>(sizeof(float))) {
    LoadTile<kOut>(out_, stride_);
  }

  QUIRE_INLINE void End() {
    AddRest();
    StoreTile<kOut>(out_, stride_);
  }

 private:
  float* out_;
  int64_t stride_;
};

}  // namespace quire::kernels::QUIRE_ISA
