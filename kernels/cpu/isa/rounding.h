#pragma once

#include "kernels/cpu/isa/vec.h"

// What rounding floats to integers of a shared scale needs.
namespace quire::kernels::QUIRE_ISA {

/// The nearest integers; |v| < 2^22.
inline IntVec RoundToInts(Vec v) {
  return reinterpret_cast<IntVec>(v + kRounder) - reinterpret_cast<IntVec>(Splat(kRounder));
}

/// How far numbers reach, and whether all of them are finite.
class Extent {
 public:
  void Take(Vec v) {
    largest_ = Max(Max(v, -v), largest_);
    spoilt_ += v - v;
  }

  /// The largest magnitude of those taken.
  float most() const { return MaxLane(largest_); }
  /// NaN when one of them was infinity or NaN, else 0: added to a scale it spoils all that the scale stands for.
  float spoilt() const { return Sum(spoilt_); }

 private:
  Vec largest_ = {}, spoilt_ = {};
};

}  // namespace quire::kernels::QUIRE_ISA
