#pragma once

#include <cstdint>

#include "kernels/rms_norm.h"

// All-reduces over the ranks of one host whose GPUs can access each other's memory, in a single exchange without a
// library. These operations suit messages that are too short to be limited by bandwidth. Every rank must call the same
// operations in the same order with the same sizes and types, each on one stream. Sums are computed in rank order in
// fp32 and rounded once, so they are bit-equal on all ranks and in every run.
namespace quire::kernels {

constexpr int kMaxOneShotRanks = 8;
constexpr int kMaxOneShotBlocks = 32;

/// Words of host memory that a rank's kernels and its host share. The host sets word 0 to make waiting kernels give up.
/// A kernel that gives up while it waits for rank r sets word 1 + r to nonzero.
constexpr int64_t kOneShotControlWords = 1 + kMaxOneShotRanks;

/// A rank's view of its group. Each rank has one arena: OneShotArenaBytes of device memory, initially zero. Every rank
/// writes into all arenas.
struct OneShotGroup {
  int32_t rank, size;  // size at most kMaxOneShotRanks
  int64_t capacity;    // bytes of the longest message, a multiple of 16, equal on all ranks
  void* arenas[kMaxOneShotRanks];
  uint32_t* control;  // [kOneShotControlWords] of this rank, initially zero
};

/// The size in bytes of an arena's header, which holds counters and flags. Two slots per rank follow the header.
constexpr int64_t kOneShotHeaderBytes = 4096;
constexpr int64_t OneShotArenaBytes(int size, int64_t capacity) { return kOneShotHeaderBytes + 2 * size * capacity; }

/// out[i] = sum over ranks of in[i]. `in` and `out` must be 16-byte aligned and may be the same. Any count that fits
/// the capacity is allowed. After an abort by the host, `out` is not written.
struct OneShotAllReduceParams {
  OneShotGroup group;
  NumberType dtype;
  const void* in;
  void* out;
  int64_t count;  // elements
};
void OneShotAllReduce(const CudaStream& stream, const OneShotAllReduceParams& params);

/// RmsNorm with the sum of all ranks' norm.delta as the delta; norm.delta holds this rank's part. The result has the
/// same bits as OneShotAllReduce followed by RmsNorm. norm.delta is not changed.
struct OneShotAllReduceRmsNormParams {
  OneShotGroup group;
  RmsNormParams norm;
};
void OneShotAllReduceRmsNorm(const CudaStream& stream, const OneShotAllReduceRmsNormParams& params);

}  // namespace quire::kernels
