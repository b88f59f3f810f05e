// Rounds rows of x to integers with one scale per 32 numbers.
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/rounding.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

void Store(const int16_t* block, int16_t* to) { __builtin_memcpy(to, block, kQuantBlock * sizeof(int16_t)); }

/// Stores a block's numbers as bytes in the order of the weights' quads (panel_quads.h): columns 0, 4, 1, 5, 2, 6, 3, 7
/// of every eight.
void Store(const int16_t* block, int8_t* to) {
  const SignedBytes16 order = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  for (int i = 0; i < kQuantBlock; i += 16) {
    const auto bytes = __builtin_convertvector(LoadAs<SignedShorts16>(block + i), SignedBytes16);
    const SignedBytes16 arranged = __builtin_shuffle(bytes, order);
    __builtin_memcpy(to + i, &arranged, sizeof(arranged));
  }
}

/// Clears the scale's two lowest bits, so that its product with kRounder (two significant bits) is exact.
float Shortened(float scale) {
  uint32_t bits;
  __builtin_memcpy(&bits, &scale, sizeof(bits));
  bits &= ~3u;
  __builtin_memcpy(&scale, &bits, sizeof(bits));
  return scale;
}

template <class T>
void QuantizeRow(const float* x, const IntegerRows<T>& to) {
  constexpr bool kBytes = sizeof(T) == 1;
  constexpr float kMostInteger = (1 << (8 * sizeof(T) - 1)) - 1;
  constexpr float kLeast = 1e-34f, kGreatest = kBytes ? 1e33f : 1e38f;
  T* values = to.values;
  for (int64_t block = 0; block < to.cols / kQuantBlock; ++block, x += kQuantBlock, values += kQuantBlock) {
    const float most = LargestMagnitude(x, kQuantBlock), whole = most / kMostInteger;
    const float scale = kBytes ? Shortened(whole) : whole;
    if (!(scale > kLeast && most < kGreatest)) {  // the scale is too small or not representable: write zeros or NaN
      __builtin_memset(values, 0, kQuantBlock * sizeof(T));
      to.begins[block] = kBegin<T>;
      to.scales[block] = to.lifts[block] = to.sums[block] = scale <= kLeast ? 0.0f : __builtin_nanf("");
      continue;
    }
    const Vec inverse = Splat(kMostInteger / most);
    IntVec sum = {};
    int16_t numbers[kQuantBlock];
    for (int i = 0; i < kQuantBlock; i += kLanes) {
      const IntVec v = RoundToInts(Load(x + i) * inverse);
      sum += v;
      const auto narrow = __builtin_convertvector(v, SignedShortVec);
      __builtin_memcpy(numbers + i, &narrow, sizeof(narrow));
    }
    Store(numbers, values);
    const int32_t total = Sum(sum);
    to.scales[block] = scale;
    to.lifts[block] = -kRounder * scale;
    to.begins[block] = kBegin<T> - kRaised * total;
    to.sums[block] = static_cast<float>(total) * scale;
  }
}

}  // namespace

void QuantizeInt16(const float* x, const IntegerRows<int16_t>& to) { QuantizeRow(x, to); }

void QuantizeInt8(const float* x, const IntegerRows<int8_t>& to) { QuantizeRow(x, to); }

}  // namespace quire::kernels::QUIRE_ISA
