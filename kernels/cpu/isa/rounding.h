#pragma once

#include "kernels/cpu/isa/vec.h"

// What rounding floats to integers of a shared scale needs.
namespace quire::kernels::QUIRE_ISA {

/// What signed bytes are raised by where products take bytes without sign.
inline constexpr int32_t kRaised = 128;
inline constexpr int32_t kRounderBits = 0x4b400000;
static_assert(__builtin_bit_cast(float, kRounderBits) == kRounder);

/// What integer sums of x in T begin with where there is nothing to take away (IntegerRows).
template <class T>
inline constexpr int32_t kBegin = sizeof(T) == 1 ? kRounderBits : 0;

/// The nearest integers; |v| < 2^22.
inline IntVec RoundToInts(Vec v) {
  return reinterpret_cast<IntVec>(v + kRounder) - reinterpret_cast<IntVec>(Splat(kRounder));
}

/// The larger magnitude of either, in each lane; NaN where one of them is, and else infinite. (As integers such bits
/// are in that order.)
inline Vec LargerMagnitude(Vec a, Vec b) {
  const IntVec left = reinterpret_cast<IntVec>(a) & 0x7fffffff, right = reinterpret_cast<IntVec>(b) & 0x7fffffff;
  return reinterpret_cast<Vec>(left > right ? left : right);
}

/// The largest magnitude of whole vectors of numbers.
inline float LargestMagnitude(const float* numbers, int64_t count) {
  Vec largest = {};
  for (int64_t i = 0; i < count; i += kLanes) largest = LargerMagnitude(Load(numbers + i), largest);
  const auto bits = JoinLanes<int32_t>(reinterpret_cast<IntVec>(largest), [](auto a, auto b) { return a > b ? a : b; });
  float most;
  __builtin_memcpy(&most, &bits, sizeof(most));
  return most;
}

/// Whole steps in which numbers are told: `of_one` of them are as much as 1, and `size` is what each stands for.
struct Steps {
  Vec of_one, size;
};

/// With `count` steps to the largest magnitude. Where that is not finite steps are of no finite size; where it is too
/// small for a factor, and where it is 0, all numbers are 0.
inline Steps StepsTo(Vec largest, float count) {
  const Vec of_one = count / largest;
  return {of_one < Splat(__builtin_inff()) ? of_one : Vec{}, largest / count};
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
