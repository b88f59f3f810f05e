#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

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
    Vec sum = {};
    for (int64_t i = begin; i < end; i += kLanes) {
      const int64_t there = Least(end - i, kLanes);
      Vec weight =
          Exp(((there == kLanes ? Load(p.logits + i) : LoadPart(p.logits + i, there)) - p.max) * p.inverse_temperature);
      weight = weight >= p.least ? weight : Vec{};  // nor does what is no number
      if (there == kLanes) {
        Store(p.weights + i, weight);
      } else {
        __builtin_memcpy(p.weights + i, &weight, static_cast<unsigned long>(there) * sizeof(float));
        weight = LoadPart(p.weights + i, there);
      }
      sum += weight;
    }
    p.sums[begin / kWeighBlock] = Sum(sum);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
