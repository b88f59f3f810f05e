#pragma once

#include <cstdint>

#include "kernels/rms_norm.h"

// Sums over the ranks of one host whose GPUs reach each other's memory: one exchange and no library, for messages that
// are too short for bandwidth to count. Every rank calls the same ops in the same order with the same sizes and types,
// each on one stream. Sums go in rank order in fp32 and are rounded once: bit-equal on all ranks and in every run.
namespace quire::kernels {

constexpr int kMaxOneShotRanks = 8;
constexpr int kMaxOneShotBlocks = 32;

/// Words of host memory that the kernels of one rank and its host share: the host sets the first to make waiting
/// kernels leave; word 1 + r becomes nonzero when a kernel left that had waited for rank r in vain.
constexpr int64_t kOneShotControlWords = 1 + kMaxOneShotRanks;

/// What a rank knows of its group. An arena is device memory of OneShotArenaBytes, zero at first, one for each rank;
/// all ranks write all of them.
struct OneShotGroup {
  int32_t rank, size;  // size at most kMaxOneShotRanks
  int64_t capacity;    // bytes of the longest message, a multiple of 16, the same on all ranks
  void* arenas[kMaxOneShotRanks];
  uint32_t* control;  // [kOneShotControlWords] of this rank, zero at first
};

/// Twice a message per rank, plus flags.
constexpr int64_t kOneShotHeaderBytes = 4096;
constexpr int64_t OneShotArenaBytes(int size, int64_t capacity) { return kOneShotHeaderBytes + 2 * size * capacity; }

/// out[i] = sum over ranks of in[i]. `in` and `out` are 16-byte aligned and may be the same; count may be anything that
/// fits the capacity. After the host's abort, `out` is not written.
struct OneShotAllReduceParams {
  OneShotGroup group;
  NumberType dtype;
  const void* in;
  void* out;
  int64_t count;  // elements
};
void OneShotAllReduce(const CudaStream& stream, const OneShotAllReduceParams& params);

/// RmsNorm with norm.delta, of which every rank holds a part, replaced by the sum of the parts as OneShotAllReduce
/// would store it. The same bits as the two ops one after the other; delta itself stays as it is.
struct OneShotAllReduceRmsNormParams {
  OneShotGroup group;
  RmsNormParams norm;
};
void OneShotAllReduceRmsNorm(const CudaStream& stream, const OneShotAllReduceRmsNormParams& params);

}  // namespace quire::kernels
