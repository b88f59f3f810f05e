#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// Copies whole blocks (all layers) within a pool or between pools. The CPU copies the pairs one after another in the
/// given order. CUDA copies all pairs in parallel in one launch. So on CUDA, destinations must be distinct, and no
/// destination may also be a source.
struct BlockCopyParams {
  const std::byte* from;  // [number of blocks, block_bytes]
  std::byte* to;          // [number of blocks, block_bytes]; may be the same pool
  int64_t block_bytes;    // all layers, keys and values; CUDA: a multiple of 16, addresses aligned to 16
  const int32_t* pairs;   // [num_pairs, 2]: source, destination
  int64_t num_pairs;
};
void BlockCopy(const CpuStream& stream, const BlockCopyParams& params);
void BlockCopy(const CudaStream& stream, const BlockCopyParams& params);

}  // namespace quire::kernels
