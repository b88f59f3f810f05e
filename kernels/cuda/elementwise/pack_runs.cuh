#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/elementwise/pack_runs.h"

namespace quire::kernels {

/// The kernel of PackRuns. The grid is (num_blocks, pieces of a block's packed bytes). Every thread moves 16 bytes at a
/// time.
struct PackRunsKernel {
  using Params = PackRunsParams;
  static constexpr bool kOverlapsPrevious = false;
  static constexpr int kThreads = 256;
  static constexpr int64_t kPiece = 64 * 1024;  // packed bytes per thread block: 16 rounds

  static __device__ void Run(const PackRunsParams& p) {
    const simt::Global<std::byte* const> blocks(p.blocks);
    const simt::Global<const PackedRun> runs(p.runs);
    std::byte* const address = blocks[simt::BlockX()];
    const simt::Global<uint32_t> block(reinterpret_cast<uint32_t*>(address));
    const simt::Global<uint32_t> packed(reinterpret_cast<uint32_t*>(p.packed + simt::BlockX() * p.packed_bytes));
    const int64_t end = simt::Min(p.packed_bytes, (simt::BlockY() + 1) * kPiece);
    int64_t run = 0;
    PackedRun now = runs[0];
    for (int64_t at = simt::BlockY() * kPiece + simt::ThreadX() * 16; at < end; at += kThreads * 16) {
      while (at >= now.packed_at + now.bytes) now = runs[++run];
      const int64_t in_block = now.at + (at - now.packed_at);
      if (p.unpacks) {
        simt::StoreVec(block, in_block / 4, simt::LoadVec<4>(packed, at / 4));
      } else {
        simt::StoreVec(packed, at / 4, simt::LoadVec<4>(block, in_block / 4));
      }
    }
  }
};

}  // namespace quire::kernels
