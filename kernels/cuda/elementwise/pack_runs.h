#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// Bytes of every block, and where they are in what is packed of it. All three are multiples of 16.
struct PackedRun {
  int64_t at, bytes, packed_at;
};

/// Copies the same runs of many KV blocks, scattered over a pool, into one piece of memory, block after block; or from
/// there into the blocks, which are distinct.
struct PackRunsParams {
  std::byte* const* blocks;  // [num_blocks], each 16-byte aligned
  const PackedRun* runs;     // [num_runs], packed one after another from 0 on
  std::byte* packed;         // [num_blocks, packed_bytes], 16-byte aligned
  int64_t num_blocks, num_runs;
  int64_t packed_bytes;  // of a block: of all runs
  bool unpacks;          // from `packed` into the blocks
};
void PackRuns(const CudaStream& stream, const PackRunsParams& params);

}  // namespace quire::kernels
