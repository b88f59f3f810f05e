#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/experts/expert_matmul.cuh"
#include "kernels/cuda/products/quantized_gemm.cuh"

namespace quire::kernels {

/// The kernel of ExpertMatmul with quantised weights. The grid is (tiles of kTileRows weight rows, experts). As in
/// ExpertMatmulKernel, a thread block processes the rows of one expert, kBatch at a time; weights of experts without
/// rows are not read. QuantizedTile multiplies a tile; its order of sums is the same for every kBatch. For each further
/// batch of rows the weights of the tile are read again, this time from the second-level cache.
template <class T, NumberType kType, int kBatch, int kBlocks>
struct QuantizedExpertKernel {
  struct Params : CudaExpertMatmulParams {
    NumberType type;       // type of the weights
    int64_t expert_bytes;  // bytes of one expert's weight
  };
  using Tile = QuantizedTile<T, kType, kBatch, kBlocks>;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = Tile::kThreads, kTileRows = Tile::kTileRows;
  static constexpr int64_t kSharedSize = Tile::kSharedSize;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t expert = simt::BlockY(), first_row = simt::BlockX() * kTileRows;
    const simt::Global<const int32_t> start(p.start);
    const int32_t begin = start[expert], end = start[expert + 1];
    const QuantizedMatrix weight{p.type, static_cast<const char*>(p.weight) + expert * p.expert_bytes, p.n, p.k};
    const simt::Global<T> y(static_cast<T*>(p.y));
    const simt::Global<const T> bias(static_cast<const T*>(p.bias));
    for (int64_t row = begin; row < end; row += kBatch) {
      const int count = static_cast<int>(simt::Min(end - row, int64_t{kBatch}));
      if (row > begin) simt::SyncThreads();  // the sums of the previous batch have been read
      typename Tile::Rows rows{simt::Global<const uint32_t>(static_cast<const uint32_t*>(p.x)), {}};
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        const int mine = c * 8 + simt::ThreadX() % 32 / 4;
        rows.begin[c] = Tile::RowBegin(mine < count, mine < count ? InputRow(p, row + mine) * p.k : 0);
      }
      float sums[kBlocks][Tile::kColumns][4] = {};
      Tile::Walk(weight, first_row, Tile::LoadFirst(weight, first_row), rows, sums);
      Tile::Finish(first_row, p.n, count, sums, [&](int mine, int64_t column, float sum) {
        if (p.bias != nullptr) {
          const T more = bias[expert * p.n + column];
          sum += simt::ToFloat(more);
        }
        y[(row + mine) * p.n + column] = simt::FromFloat<T>(sum);
      });
    }
  }
};

}  // namespace quire::kernels
