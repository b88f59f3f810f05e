#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace quire::kernels {

/// Copies whole blocks, all of them in one launch:
///   copy-on-write   both tables given, from == to: block from_ids[i] becomes a copy in block to_ids[i]
///   swap out        to_ids null: blocks from_ids[i] of the pool are gathered into row i of a staging buffer
///   swap in         from_ids null: row i of the staging buffer is scattered to block to_ids[i]
/// The copies run side by side: destinations are distinct, and none of them is also a source.
struct BlockMoveParams {
  const void* from;         // [.., block_bytes], blocks from_stride bytes apart
  void* to;                 // [.., block_bytes], blocks to_stride bytes apart
  int64_t from_stride;      // multiples of 16, as are the addresses
  int64_t to_stride;        // likewise
  int64_t block_bytes;      // likewise
  const int32_t* from_ids;  // [num_blocks] or null: 0, 1, 2, ..
  const int32_t* to_ids;    // likewise
  int64_t num_blocks;
};
void BlockMove(const CudaStream& stream, const BlockMoveParams& params);

}  // namespace quire::kernels
