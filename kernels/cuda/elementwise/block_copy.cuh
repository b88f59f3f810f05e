#pragma once

#include <simt/device.cuh>

#include "kernels/block_copy.h"

namespace quire::kernels {

/// The kernel of BlockCopy. The grid is (num_pairs, pieces of a block). Every thread moves 16 bytes at a time.
struct BlockCopyKernel {
  using Params = BlockCopyParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256;
  static constexpr int64_t kPiece = 64 * 1024;  // bytes per thread block: 16 rounds

  static __device__ void Run(const BlockCopyParams& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const simt::Global<const int32_t> pairs(p.pairs);
    const int64_t source = pairs[simt::BlockX() * 2], target = pairs[simt::BlockX() * 2 + 1];
    const simt::Global<const uint32_t> from(reinterpret_cast<const uint32_t*>(p.from));
    const simt::Global<uint32_t> to(reinterpret_cast<uint32_t*>(p.to));
    const int64_t end = simt::Min(p.block_bytes, (simt::BlockY() + 1) * kPiece);
    for (int64_t at = simt::BlockY() * kPiece + simt::ThreadX() * 16; at < end; at += kThreads * 16) {
      const simt::Vec<uint32_t, 4> bytes = simt::LoadVec<4>(from, (source * p.block_bytes + at) / 4);
      simt::StoreVec(to, (target * p.block_bytes + at) / 4, bytes);
    }
  }
};

}  // namespace quire::kernels
