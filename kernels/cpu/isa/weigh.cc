// Computes the weights with which tokens are sampled. Uses no MulAdd, because ranks with different instruction sets
// must sample the same tokens.
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr int kSumLanes = 16;  // number of partial sums of a block, for any vector length

Vec WeightsAt(const WeighParams& p, Vec logits) {
  const Vec weight = Exp<false>((logits - p.max) * p.inverse_temperature);
  const IntVec counts = (logits >= p.least) & (weight >= 0.0f);  // NaN gets weight 0
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(weight) & counts);
}

}  // namespace

float RowMax(const float* x, int64_t count) {
  Vec max = Splat(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) max = Max(Load(x + i), max);
  float most = MaxLane(max);
  for (; i < count; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

void Weigh(const WeighParams& p) {
  for (int64_t begin = 0; begin < p.count; begin += kWeighBlock) {
    const int64_t end = Least(begin + kWeighBlock, p.count);
    float sums[kSumLanes] = {};
    for (int64_t i = begin; i < end; i += kLanes) {
      const int64_t there = Least(end - i, kLanes);
      float weights[kLanes] = {};
      Store(weights, WeightsAt(p, there == kLanes ? Load(p.logits + i) : LoadPart(p.logits + i, there)));
      __builtin_memcpy(p.weights + i, weights, static_cast<unsigned long>(there) * sizeof(float));
      float* const sum = sums + (i - begin) % kSumLanes;
      const Vec part = there == kLanes ? Load(weights) : LoadPart(weights, there);
      Store(sum, Load(sum) + part);
    }
    for (int width = kSumLanes / 2; width > 0; width /= 2) {
      for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    p.sums[begin / kWeighBlock] = sums[0];
  }
}

}  // namespace quire::kernels::QUIRE_ISA
