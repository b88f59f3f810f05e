#pragma once

#include <simt/device.cuh>

#include "kernels/state_view.h"

// Where kernels find the states of a step's sequences.
namespace quire::kernels {

/// What a step computes of a sequence.
struct SequenceRows {
  int64_t begin, end;  // of its new tokens' rows
  bool from_zeros;     // the state before them is zeros, whatever its blocks hold
  bool keeps;          // the state after them is wanted: the sequence is no padding
};

__device__ inline SequenceRows RowsOf(const StateView& state, int64_t sequence) {
  const simt::Global<const int32_t> start(state.query_start), context(state.context_len);
  const int32_t begin = start[sequence], end = start[sequence + 1], length = context[sequence];
  return {begin, end, length <= end - begin, length > 0};
}

/// A number of a sequence's state in the pool, as an index of fp32 numbers from block 0 on. It only moves forward, so
/// that a block's place is looked up once and nothing is divided on the way.
class StateCursor {
 public:
  /// At byte `at` of the op's part.
  __device__ StateCursor(const StateView& state, int64_t sequence, int64_t at)
      : blocks_(simt::Global<const int32_t>(state.blocks) + sequence * state.blocks_per_state),
        stride_(state.block_stride),
        block_((state.offset + at) / stride_),
        within_((state.offset + at) % stride_) {
    FindBlock();
  }

  __device__ int64_t index() const { return index_of_block_ + within_ / 4; }

  /// To a byte that is still the sequence's.
  __device__ void Advance(int64_t bytes) {
    within_ += bytes;
    if (within_ < stride_) return;
    for (; within_ >= stride_; within_ -= stride_) ++block_;
    FindBlock();
  }

 private:
  __device__ void FindBlock() {
    const int32_t id = blocks_[block_];
    index_of_block_ = int64_t{id} * (stride_ / 4);
  }

  simt::Global<const int32_t> blocks_;  // of the sequence
  int64_t stride_;
  int64_t block_, within_;  // which of them, and the byte in it
  int64_t index_of_block_ = 0;
};

}  // namespace quire::kernels
