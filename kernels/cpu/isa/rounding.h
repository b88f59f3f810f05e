#pragma once

#include "kernels/cpu/isa/vec.h"

// Functions that round floats to integers with a shared scale.
namespace quire::kernels::QUIRE_ISA {

/// The offset that makes signed bytes unsigned, for products that take unsigned bytes.
inline constexpr int32_t kRaised = 128;
inline constexpr int32_t kRounderBits = 0x4b400000;
static_assert(__builtin_bit_cast(float, kRounderBits) == kRounder);

/// The start value of integer sums with x of type T when there is no offset to cancel (IntegerRows).
template <class T>
inline constexpr int32_t kBegin = sizeof(T) == 1 ? kRounderBits : 0;

/// Rounds to the nearest integers; requires |v| < 2^22.
inline IntVec RoundToInts(Vec v) {
  return reinterpret_cast<IntVec>(v + kRounder) - reinterpret_cast<IntVec>(Splat(kRounder));
}

/// Returns the larger magnitude in each lane. NaN counts as larger than infinity, and infinity as larger than all
/// numbers; their bits as integers have this order.
inline Vec LargerMagnitude(Vec a, Vec b) {
  const IntVec left = reinterpret_cast<IntVec>(a) & 0x7fffffff, right = reinterpret_cast<IntVec>(b) & 0x7fffffff;
  return reinterpret_cast<Vec>(left > right ? left : right);
}

/// Returns the largest magnitude of `count` numbers, a multiple of kLanes.
inline float LargestMagnitude(const float* numbers, int64_t count) {
  Vec largest = {};
  for (int64_t i = 0; i < count; i += kLanes) largest = LargerMagnitude(Load(numbers + i), largest);
  const auto bits = JoinLanes<int32_t>(reinterpret_cast<IntVec>(largest), [](auto a, auto b) { return a > b ? a : b; });
  float most;
  __builtin_memcpy(&most, &bits, sizeof(most));
  return most;
}

/// A quantisation step: `of_one` steps make 1.0, and `size` is the value of one step.
struct Steps {
  Vec of_one, size;
};

/// Returns steps of such a size that `count` steps make the largest magnitude. If that magnitude is not finite, `size`
/// is not finite either. If it is 0 or too small for a finite factor, all numbers round to 0.
inline Steps StepsTo(Vec largest, float count) {
  const Vec of_one = count / largest;
  return {of_one < Splat(__builtin_inff()) ? of_one : Vec{}, largest / count};
}

/// Accumulates the largest magnitude of vectors, and whether all numbers are finite.
class Extent {
 public:
  void Take(Vec v) {
    largest_ = Max(Max(v, -v), largest_);
    spoilt_ += v - v;
  }

  /// Returns the largest magnitude of the vectors taken.
  float most() const { return MaxLane(largest_); }
  /// Returns NaN if a number was infinite or NaN, else 0. Adding the result to a scale marks all values with this scale
  /// as broken.
  float spoilt() const { return Sum(spoilt_); }

 private:
  Vec largest_ = {}, spoilt_ = {};
};

}  // namespace quire::kernels::QUIRE_ISA
