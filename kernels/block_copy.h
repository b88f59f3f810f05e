#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// Copies whole blocks (all layers) inside a pool or from one to another. The CPU copies one after another in the given
/// order. CUDA copies all of them side by side in one launch: there destinations are distinct, and none of them is also
/// a source.
struct BlockCopyParams {
  const std::byte* from;  // [.., block_bytes]
  std::byte* to;          // likewise; may be the same pool
  int64_t block_bytes;    // all layers, keys and values; CUDA: a multiple of 16, as are the addresses
  const int32_t* pairs;   // [num_pairs, 2]: source, destination
  int64_t num_pairs;
};
void BlockCopy(const CpuStream& stream, const BlockCopyParams& params);
void BlockCopy(const CudaStream& stream, const BlockCopyParams& params);

}  // namespace quire::kernels
