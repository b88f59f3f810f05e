#pragma once

#include <simt/device.cuh>

#include "kernels/state_view.h"

// Finds where the states of a step's sequences lie in the pool.
namespace quire::kernels {

/// A sequence's part of a step.
struct SequenceRows {
  int64_t begin, end;  // rows of its new tokens
  bool from_zeros;     // the previous state counts as zeros, whatever its blocks contain
  bool keeps;          // false for padding: its state is not written
};

__device__ inline SequenceRows RowsOf(const StateView& state, int64_t sequence) {
  const simt::Global<const int32_t> start(state.query_start), context(state.context_len);
  const int32_t begin = start[sequence], end = start[sequence + 1], length = context[sequence];
  return {begin, end, length <= end - begin, length > 0};
}

/// Finds the numbers of a sequence's state, as indices of fp32 numbers from block 0 of the pool on. The cursor only
/// moves forward, so it looks up each block once and divides only at the start.
class StateCursor {
 public:
  /// Starts at byte `at` of the op's part of the state.
  __device__ StateCursor(const StateView& state, int64_t sequence, int64_t at)
      : blocks_(simt::Global<const int32_t>(state.blocks) + sequence * state.blocks_per_state),
        stride_(state.block_stride),
        block_((state.offset + at) / stride_),
        within_((state.offset + at) % stride_) {
    FindBlock();
  }

  __device__ int64_t index() const { return index_of_block_ + within_ / 4; }

  /// Moves forward by `bytes`. The cursor must stay within the sequence's state.
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

  simt::Global<const int32_t> blocks_;  // block ids of the sequence's state
  int64_t stride_;
  int64_t block_, within_;  // index in blocks_, and byte within that block
  int64_t index_of_block_ = 0;
};

}  // namespace quire::kernels
