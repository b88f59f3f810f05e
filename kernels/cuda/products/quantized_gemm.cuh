#pragma once

#include <simt/device.cuh>
#include <simt/tensor_core.cuh>

#include "kernels/cuda/products/quantized_gemm.h"
#include "kernels/cuda/products/quantized_piece.cuh"

namespace quire::kernels {

/// The most groups of 16 weight rows per thread block. Six-bit and FP8 weights need more registers, so they have fewer.
template <NumberType kType>
inline constexpr int kMostTileBlocks = kType == NumberType::kQ6_K || kType == NumberType::kFp8E4M3 ? 2 : 4;

/// The product of kTileRows weight rows with up to kBatch rows of x, computed by one thread block. In a tensor-core
/// product, 16 weight rows are A and 8 rows of x are the columns of B, as in SkinnyGemmKernel. A lane has 16
/// neighbouring bytes of each of its rows; the four lanes of a row have 64. These bytes become fragments in registers,
/// without shared memory: any order of columns within a chunk will do as long as x is read in the same order. Warp w
/// takes chunks w, w + 8, w + 16 ..., and loads the next chunk's weights while it multiplies; the warps' sums are added
/// in order of warps. This order and the order within a chunk are the same in every instantiation for a weight type.
template <class T, NumberType kType, int kBatch, int kBlocks>
struct QuantizedTile {
  using Piece = QuantizedPiece<kType>;
  static constexpr int kWarps = 8, kThreads = kWarps * 32, kChunk = 4 * Piece::kNumbers;
  static constexpr int kTileRows = 16 * kBlocks, kColumns = kBatch / 8;
  /// The distance in floats from one row of sums to the next in shared memory. With 4 floats more than a tile has rows,
  /// the 32 lanes of a warp store their sums into 32 different banks.
  static constexpr int kSumStride = kTileRows + 4;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * kBatch * kSumStride * 4);

  /// A lane's part of a chunk: rows lane / 4 and lane / 4 + 8 of each 16.
  struct Weights {
    Piece of[kBlocks][2];
  };

  /// `begin`: the offset of each of a lane's rows of x, in pairs of numbers. The offsets have 32 bits, because 64-bit
  /// offsets would need more registers than the largest tiles leave.
  struct Rows {
    simt::Global<const uint32_t> x;
    uint32_t begin[kColumns];
  };
  static constexpr uint32_t kNoRow = 0xffffffff;
  static __device__ uint32_t RowBegin(bool there, int64_t number) {
    return there ? static_cast<uint32_t>(number / 2) : kNoRow;
  }

  /// Loads a lane's part of a chunk. The part is zero beyond the weight's rows and columns.
  static __device__ Weights Load(const QuantizedMatrix& weight, int64_t first_row, int64_t column) {
    Weights weights;
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = first_row + r * 16 + half * 8;
        if (row < weight.n && column < weight.k) weights.of[r][half] = Piece::Load(weight, row, column);
      }
    }
    return weights;
  }

  /// Returns the first column of a thread.
  static __device__ int64_t FirstColumn() {
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
    return warp * int64_t{kChunk} + lane % 4 * Piece::kNumbers;
  }
  /// Returns a thread's first weights.
  static __device__ Weights LoadFirst(const QuantizedMatrix& weight, int64_t first_row) {
    return Load(weight, first_row + simt::ThreadX() % 32 / 4, FirstColumn());
  }

  /// Adds the thread's part of all products to its sums. `next`: the result of LoadFirst.
  static __device__ void Walk(const QuantizedMatrix& weight, int64_t first_row, Weights next, const Rows& rows,
                              float (&sums)[kBlocks][kColumns][4]) {
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
    int64_t column = FirstColumn();
    for (int64_t chunk = warp * int64_t{kChunk}; chunk < weight.k; chunk += kWarps * kChunk) {
      const Weights now = next;
      next = Load(weight, first_row + lane / 4, column + kWarps * kChunk);
      Multiply(weight, now, rows, column, sums);
      column += kWarps * kChunk;
    }
  }

  /// Adds a chunk's products to the sums. `column`: the first column of this lane.
  static __device__ void Multiply(const QuantizedMatrix& weight, const Weights& weights, const Rows& rows,
                                  int64_t column, float (&sums)[kBlocks][kColumns][4]) {
#pragma unroll
    for (int i = 0; i < Piece::kNumbers; i += 8) {
      simt::Vec<uint32_t, 4> columns[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        columns[c] = {};
        if (rows.begin[c] != kNoRow && column < weight.k) {
          columns[c] = simt::LoadVec<4>(rows.x, int64_t{rows.begin[c]} + (column + i) / 2);
        }
      }
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int from = i + part * 4;
#pragma unroll
        for (int r = 0; r < kBlocks; ++r) {
          const Piece &upper = weights.of[r][0], &lower = weights.of[r][1];
          const uint32_t a[4] = {upper.template Pair<T>(from), lower.template Pair<T>(from),
                                 upper.template Pair<T>(from + 2), lower.template Pair<T>(from + 2)};
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const uint32_t b[2] = {columns[c].v[part * 2], columns[c].v[part * 2 + 1]};
            simt::Mma<T>(sums[r][c], a, b);
          }
        }
      }
    }
  }

  /// Adds the warps' sums through shared memory, then stores one output per thread and round: store(row of the batch,
  /// row of the weight, sum).
  template <class Store>
  static __device__ void Finish(int64_t first_row, int64_t n, int count, const float (&sums)[kBlocks][kColumns][4],
                                const Store& store) {
    simt::SharedArena arena;
    const simt::SharedArray<float> all = arena.template Take<float>(kWarps * kBatch * kSumStride);
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = warp * kBatch + c * 8 + lane % 4 * 2 + i % 2;
          all[column * kSumStride + r * 16 + lane / 4 + i / 2 * 8] = sums[r][c][i];
        }
      }
    }
    simt::SyncThreads();
    for (int i = simt::ThreadX(); i < count * kTileRows; i += kThreads) {
      const int row = i / kTileRows, j = i % kTileRows;
      if (first_row + j >= n) continue;
      float sum = all[row * kSumStride + j];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += all[(w * kBatch + row) * kSumStride + j];
      store(row, first_row + j, sum);
    }
  }
};

/// The kernel of QuantizedGemm. The grid is (tiles of kTileRows weight rows).
template <class T, NumberType kType, int kBatch, int kBlocks>
struct QuantizedGemmKernel {
  using Params = QuantizedGemmParams;
  using Tile = QuantizedTile<T, kType, kBatch, kBlocks>;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = Tile::kThreads, kTileRows = Tile::kTileRows;
  static constexpr int64_t kSharedSize = Tile::kSharedSize;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    const int64_t first_row = simt::BlockX() * kTileRows;
    // Weights depend on no earlier kernel, so their first loads may overlap the end of the previous kernel.
    const typename Tile::Weights first = Tile::LoadFirst(p.weight, first_row);
    simt::WaitForPrerequisites();
    typename Tile::Rows rows{simt::Global<const uint32_t>(static_cast<const uint32_t*>(p.x)), {}};
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      const int mine = c * 8 + simt::ThreadX() % 32 / 4;
      rows.begin[c] = Tile::RowBegin(mine < p.m, mine * p.x_stride);
    }
    float sums[kBlocks][Tile::kColumns][4] = {};
    Tile::Walk(p.weight, first_row, first, rows, sums);
    const simt::Global<T> out(static_cast<T*>(p.out));
    Tile::Finish(first_row, p.weight.n, p.m, sums, [&](int row, int64_t column, float sum) {
      out[row * p.out_stride + column] = simt::FromFloat<T>(sum * p.scale);
    });
  }
};

/// The kernel of ExpandQuantized. Each thread expands 16 bytes of integers. The grid covers all rows with thread blocks
/// of kThreads threads.
template <class T, NumberType kType>
struct ExpandQuantizedKernel {
  using Params = ExpandQuantizedParams;
  using Piece = QuantizedPiece<kType>;
  static constexpr int kThreads = 256;

  static __device__ void Run(const Params& p) {
    const int64_t at = (simt::BlockX() * kThreads + simt::ThreadX()) * Piece::kNumbers, k = p.weight.k;
    if (at >= p.rows * k) return;
    const Piece piece = Piece::Load(p.weight, p.first_row + at / k, at % k);
    const simt::Global<uint32_t> out(static_cast<uint32_t*>(p.out));  // pairs of 16-bit numbers
#pragma unroll
    for (int i = 0; i < Piece::kNumbers; i += 8) {
      simt::StoreVec<4>(out, (at + i) / 2,
                        simt::Vec<uint32_t, 4>{piece.template Pair<T>(i), piece.template Pair<T>(i + 2),
                                               piece.template Pair<T>(i + 4), piece.template Pair<T>(i + 6)});
    }
  }
};

}  // namespace quire::kernels
