#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// A run of `bytes` bytes at offset `at` of every block, and its offset `packed_at` in the block's packed bytes. All
/// three numbers are multiples of 16.
struct PackedRun {
  int64_t at, bytes, packed_at;
};

/// Packs the same runs of many KV blocks, scattered over a pool, into one buffer, block after block; or unpacks the
/// buffer into the blocks, which must be distinct.
struct PackRunsParams {
  std::byte* const* blocks;  // [num_blocks], each 16-byte aligned
  const PackedRun* runs;     // [num_runs], packed one after another from 0 on
  std::byte* packed;         // [num_blocks, packed_bytes], 16-byte aligned
  int64_t num_blocks, num_runs;
  int64_t packed_bytes;  // bytes of all runs of one block
  bool unpacks;          // true: from `packed` into the blocks
};
void PackRuns(const CudaStream& stream, const PackRunsParams& params);

}  // namespace quire::kernels
