#pragma once

#include <simt/async_copy.cuh>
#include <simt/device.cuh>
#include <simt/tensor_core.cuh>

#include "kernels/cuda/products/skinny_gemm.h"

namespace quire::kernels {

/// The kernel of SkinnyGemm. The grid covers the weight's rows with tiles of kTileRows. In a tensor-core product, 16
/// weight rows are A and 8 rows of x are the columns of B, so 8 rows of x cost no more than one. Warps share the tile
/// and divide K in chunks of 64 columns: warp w takes chunks w, w + 4, w + 8 ..., through a pipeline of its own and
/// without barriers of the thread block. The warps' sums are added in order of warps. This order and the order within a
/// chunk are the same in every instantiation.
template <class T, int kBatch, int kBlocks, bool kNorm>
struct SkinnyGemmKernel {
  using Params = SkinnyGemmParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kWarps = 4, kThreads = kWarps * 32, kChunk = 64;
  static constexpr int kTileRows = 16 * kBlocks, kColumns = kBatch / 8;
  static constexpr int kPair = kColumns > 1 ? 2 : 1;  // column blocks per ldmatrix
  /// Columns of K per pipeline stage: a chunk, or half a chunk if whole chunks of weights and x would leave shared
  /// memory for too few stages.
  static constexpr int kStep = kTileRows + kBatch > 48 ? kChunk / 2 : kChunk;
  static constexpr int kStageElements = (kTileRows + kBatch + (kNorm ? 1 : 0)) * kStep;
  /// The number of stages that fit into 99 KiB of shared memory. Every architecture from sm_80 on allows a thread block
  /// this much. A multiprocessor with 228 KiB holds two such thread blocks.
  static constexpr int kStages = 99 * 1024 / (kStageElements * 2 * kWarps);
  static_assert(kStages >= 3);
  /// The distance in floats from one row of sums to the next in shared memory. With 4 floats more than a tile has rows,
  /// the 32 lanes of a warp store their sums into 32 different banks.
  static constexpr int kSumStride = kTileRows + 4;
  static constexpr int64_t kPipelineSize = simt::SharedBytes(int64_t{kWarps} * kStages * kStageElements * 2);
  static constexpr int64_t kSumsSize =
      simt::SharedBytes(kWarps * kBatch * kSumStride * 4) + simt::SharedBytes(kWarps * kBatch * 4);
  static constexpr int64_t kSharedSize = std::max(kPipelineSize, kSumsSize);

  /// The offset of a piece in a stage. A stage has rows of kStep elements in pieces of 16 bytes. The pieces are
  /// swizzled so that the 8 row starts of an ldmatrix matrix lie in different banks.
  static constexpr int kPieces = kStep / 8, kRowsPerCopy = 32 / kPieces;
  static __device__ int At(int row, int piece) {
    const int swizzle = kPieces == 8 ? row % 8 : row / 2 % 4;
    return row * kStep + (piece ^ swizzle) * 8;
  }

  /// The columns of K that one warp multiplies: every kWarps-th chunk of kChunk columns, in items of kStep columns.
  struct Warp {
    simt::SharedArray<T> stages;  // [kStages][kTileRows + kBatch (+ 1)][kStep]: weights, x, norm weight
    simt::Global<const T> weight, x, norm_weight;  // weight and x: at the row and piece that this lane copies first
    int64_t k, x_stride;
    int rows, m;  // existing rows of the tile and of x
    int warp, lane;
    int items;
    /// Returns the first column of the lane's piece of an item.
    __device__ int64_t ColumnOf(int item) const {
      constexpr int kItems = kChunk / kStep;
      return (warp + int64_t{item / kItems} * kWarps) * kChunk + item % kItems * kStep + lane % kPieces * 8;
    }
    /// CopyWeight and CopyInput copy an item's columns, and fill with zeros beyond the tile's rows, the batch or K.
    __device__ void CopyWeight(int item) const {
      if (item >= items) return;
      const simt::SharedArray<T> to = stages + item % kStages * kStageElements;
      const int64_t column = ColumnOf(item);
      int64_t from = column;
#pragma unroll 4
      for (int row = 0; row < kTileRows; row += kRowsPerCopy, from += kRowsPerCopy * k) {
        const int mine = row + lane / kPieces;
        simt::CopyAsync<16>(to, At(mine, lane % kPieces), weight, from, mine < rows && column < k);
      }
    }
    __device__ void CopyInput(int item) const {
      if (item >= items) return;
      const simt::SharedArray<T> to = stages + (item % kStages * kStageElements + kTileRows * kStep);
      const int64_t column = ColumnOf(item);
      int64_t from = column;
#pragma unroll 4
      for (int row = 0; row < kBatch; row += kRowsPerCopy, from += kRowsPerCopy * x_stride) {
        const int mine = row + lane / kPieces;
        simt::CopyAsync<16>(to, At(mine, lane % kPieces), x, from, mine < m && column < k);
      }
      if (kNorm && lane < kPieces) {
        simt::CopyAsync<16>(to, kBatch * kStep + lane * 8, norm_weight, column, column < k);
      }
    }
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
    const int64_t first_row = simt::BlockX() * kTileRows, chunks = (p.k + kChunk - 1) / kChunk;
    simt::SharedArena arena;
    const simt::SharedArray<T> stages = arena.template Take<T>(kWarps * kStages * kStageElements);
    const Warp self{stages + warp * kStages * kStageElements,
                    simt::Global<const T>(static_cast<const T*>(p.weight)) + (first_row + lane / kPieces) * p.k,
                    simt::Global<const T>(static_cast<const T*>(p.x)) + lane / kPieces * p.x_stride,
                    simt::Global<const T>(static_cast<const T*>(p.norm_weight)),
                    p.k,
                    p.x_stride,
                    static_cast<int>(simt::Min(p.n - first_row, int64_t{kTileRows})),
                    p.m,
                    warp,
                    lane,
                    static_cast<int>((chunks - warp + kWarps - 1) / kWarps) * (kChunk / kStep)};
    float sums[kBlocks][kColumns][4] = {}, squares[kColumns] = {};
    Walk(self, sums, squares);
    simt::SyncThreads();  // all reads are done: the stages' memory now holds sums
    Finish(p, first_row, self, sums, squares);
  }

  static __device__ void Walk(const Warp& self, float (&sums)[kBlocks][kColumns][4], float (&squares)[kColumns]) {
    // Weights depend on no earlier kernel, so their loads may overlap the end of the previous kernel.
#pragma unroll
    for (int item = 0; item < kStages - 1; ++item) self.CopyWeight(item);
    simt::WaitForPrerequisites();
#pragma unroll
    for (int item = 0; item < kStages - 1; ++item) {
      self.CopyInput(item);
      simt::CommitCopies();
    }
    for (int item = 0; item < self.items; ++item) {
      simt::WaitForCopies<kStages - 2>();
      simt::SyncWarp();  // all lanes have waited and have left the stage to fill next
      self.CopyWeight(item + kStages - 1);
      self.CopyInput(item + kStages - 1);
      simt::CommitCopies();
      Multiply(self.stages + item % kStages * kStageElements, self.lane, sums, squares);
    }
  }

  /// Adds a stage's products to the sums, 16 columns of K at a time.
  static __device__ void Multiply(const simt::SharedArray<T>& stage, int lane, float (&sums)[kBlocks][kColumns][4],
                                  float (&squares)[kColumns]) {
    const simt::SharedArray<T> x = stage + kTileRows * kStep, norm_weight = x + kBatch * kStep;
#pragma unroll
    for (int piece = 0; piece < kPieces; piece += 2) {
      uint32_t a[kBlocks][4], b[kColumns / kPair][kPair * 2];  // b: two registers per 8 rows of x
#pragma unroll
      for (int c = 0; c < kColumns / kPair; ++c) {
        simt::LoadMatrix<kPair * 2>(b[c], x, At(c * kPair * 8 + lane / 16 * 8 + lane % 8, piece + lane / 8 % 2));
      }
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
        simt::LoadMatrix<4>(a[r], stage, At(r * 16 + lane % 16, piece + lane / 16));
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        uint32_t columns[2] = {b[c / kPair][c % kPair * 2], b[c / kPair][c % kPair * 2 + 1]};
        if constexpr (kNorm) Normalise(norm_weight, piece * 8 + lane % 4 * 2, columns, squares[c]);
#pragma unroll
        for (int r = 0; r < kBlocks; ++r) simt::Mma<T>(sums[r][c], a[r], columns);
      }
    }
  }

  /// Multiplies x by the norm's weight, rounds the result as the norm would, and adds up the squares of x.
  static __device__ void Normalise(const simt::SharedArray<T>& norm_weight, int k, uint32_t (&x)[2], float& squares) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const simt::Vec<T, 2> weight = simt::LoadVec<2>(norm_weight, k + i * 8);
      const simt::Vec<float, 2> pair = simt::UnpackPair<T>(x[i]);
      squares += pair.v[0] * pair.v[0];
      squares += pair.v[1] * pair.v[1];
      x[i] = simt::PackPair<T>(pair.v[0] * simt::ToFloat(weight.v[0]), pair.v[1] * simt::ToFloat(weight.v[1]));
    }
  }

  /// Adds the warps' sums through shared memory, then stores one output per thread and round.
  static __device__ void Finish(const Params& p, int64_t first_row, const Warp& self,
                                const float (&sums)[kBlocks][kColumns][4], float (&squares)[kColumns]) {
    simt::SharedArena arena;
    const simt::SharedArray<float> all_sums = arena.template Take<float>(kWarps * kBatch * kSumStride);
    const simt::SharedArray<float> all_squares = arena.template Take<float>(kWarps * kBatch);
    const int lane = self.lane;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = self.warp * kBatch + c * 8;
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = (column + lane % 4 * 2 + i % 2) * kSumStride + r * 16 + lane / 4 + i / 2 * 8;
          all_sums[at] = sums[r][c][i];
        }
      }
      if constexpr (kNorm) {
        squares[c] += simt::ShuffleXor(squares[c], 1);
        squares[c] += simt::ShuffleXor(squares[c], 2);
        if (lane % 4 == 0) all_squares[column + lane / 4] = squares[c];
      }
    }
    simt::SyncThreads();
    const bool pairs = p.epilogue == SkinnyEpilogue::kGateMul;
    const int width = pairs ? kTileRows / 2 : kTileRows;
    const int64_t first_out = pairs ? first_row / 2 : first_row, end_out = pairs ? p.n / 2 : p.n;
    for (int i = simt::ThreadX(); i < p.m * width; i += kThreads) {
      const int row = i / width, j = i % width;
      if (first_out + j >= end_out) continue;
      float scale = 1;
      if constexpr (kNorm) {
        scale = simt::Rsqrt(OfAllWarps(all_squares, row, kBatch) / static_cast<float>(p.k) + p.epsilon);
      }
      const int at = row * kSumStride + (pairs ? j / 8 * 16 + j % 8 : j);  // SkinnyGateUpRow
      const float sum = OfAllWarps(all_sums, at, kBatch * kSumStride) * scale;
      const float up = pairs ? OfAllWarps(all_sums, at + 8, kBatch * kSumStride) * scale : 0;
      Store(p, row * p.out_stride + first_out + j, sum, up);
    }
  }

  static __device__ float OfAllWarps(const simt::SharedArray<float>& values, int at, int stride) {
    float sum = values[at];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) sum += values[w * stride + at];
    return sum;
  }

  static __device__ void Store(const Params& p, int64_t at, float sum, float up) {
    if (p.epilogue == SkinnyEpilogue::kStoreFloat) {
      simt::Global<float>(static_cast<float*>(p.out))[at] = sum;
      return;
    }
    const simt::Global<T> out(static_cast<T*>(p.out));
    if (p.epilogue == SkinnyEpilogue::kAddResidual) {
      const T residual = out[at];
      sum += simt::ToFloat(residual);
    } else if (p.epilogue == SkinnyEpilogue::kGateMul) {
      sum = sum / (1 + simt::Exp(-sum)) * up;
    }
    out[at] = simt::FromFloat<T>(sum);
  }
};

}  // namespace quire::kernels
