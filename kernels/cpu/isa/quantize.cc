// Rounds rows of x to integers, 32 numbers to a scale.
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/rounding.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

void Store(const int16_t* block, int16_t* to) { __builtin_memcpy(to, block, kQuantBlock * sizeof(int16_t)); }

/// In the order of the weight's quads.
void Store(const int16_t* block, int8_t* to) {
  const SignedBytes16 order = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  for (int i = 0; i < kQuantBlock; i += 16) {
    const auto bytes = __builtin_convertvector(LoadAs<SignedShorts16>(block + i), SignedBytes16);
    const SignedBytes16 arranged = __builtin_shuffle(bytes, order);
    __builtin_memcpy(to + i, &arranged, sizeof(arranged));
  }
}

template <class T>
void QuantizeRow(const float* x, int64_t cols, T* values, float* scales, int32_t* totals, float* sums) {
  constexpr float kMostInteger = (1 << (8 * sizeof(T) - 1)) - 1;
  constexpr float kLeast = 1e-34f, kGreatest = 1e38f;
  for (; cols > 0; cols -= kQuantBlock, x += kQuantBlock, values += kQuantBlock, ++scales, ++totals, ++sums) {
    const float most = LargestMagnitude(x, kQuantBlock), scale = most / kMostInteger;
    if (!(scale > kLeast && most < kGreatest)) {  // nothing, or nothing that integers can say: 0 or NaN
      __builtin_memset(values, 0, kQuantBlock * sizeof(T));
      *totals = 0;
      *scales = *sums = scale <= kLeast ? 0.0f : __builtin_nanf("");
      continue;
    }
    const Vec inverse = Splat(kMostInteger / most);
    IntVec sum = {};
    int16_t block[kQuantBlock];
    for (int i = 0; i < kQuantBlock; i += kLanes) {
      const IntVec v = RoundToInts(Load(x + i) * inverse);
      sum += v;
      const auto narrow = __builtin_convertvector(v, SignedShortVec);
      __builtin_memcpy(block + i, &narrow, sizeof(narrow));
    }
    Store(block, values);
    *scales = scale;
    *totals = Sum(sum);
    *sums = static_cast<float>(*totals) * scale;
  }
}

}  // namespace

void QuantizeInt16(const float* x, int64_t cols, int16_t* values, float* scales, int32_t* totals, float* sums) {
  QuantizeRow(x, cols, values, scales, totals, sums);
}

void QuantizeInt8(const float* x, int64_t cols, int8_t* values, float* scales, int32_t* totals, float* sums) {
  QuantizeRow(x, cols, values, scales, totals, sums);
}

}  // namespace quire::kernels::QUIRE_ISA
