#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/elementwise/block_move.h"

namespace quire::kernels {

/// Grid (num_blocks, pieces of a block); every thread moves 16 bytes at a time.
struct BlockMoveKernel {
  using Params = BlockMoveParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256;
  static constexpr int64_t kPiece = 64 * 1024;  // bytes that a thread block moves: 16 rounds

  static __device__ void Run(const BlockMoveParams& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = simt::BlockX();
    int64_t source = i, target = i;
    if (p.from_ids != nullptr) source = simt::Global<const int32_t>(p.from_ids)[i];
    if (p.to_ids != nullptr) target = simt::Global<const int32_t>(p.to_ids)[i];
    const simt::Global<const uint32_t> from(static_cast<const uint32_t*>(p.from));
    const simt::Global<uint32_t> to(static_cast<uint32_t*>(p.to));
    const int64_t end = simt::Min(p.block_bytes, (simt::BlockY() + 1) * kPiece);
    for (int64_t at = simt::BlockY() * kPiece + simt::ThreadX() * 16; at < end; at += kThreads * 16) {
      const simt::Vec<uint32_t, 4> bytes = simt::LoadVec<4>(from, (source * p.from_stride + at) / 4);
      simt::StoreVec(to, (target * p.to_stride + at) / 4, bytes);
    }
  }
};

}  // namespace quire::kernels
