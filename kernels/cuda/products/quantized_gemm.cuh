#pragma once

#include <simt/device.cuh>
#include <simt/tensor_core.cuh>

#include "kernels/cuda/products/quantized_gemm.h"

namespace quire::kernels {

/// 16 bytes of a row's integers, which are part of one block of 32, and the scale of that block.
template <NumberType kType>
struct QuantizedPiece {
  static constexpr bool kNibbles = kType == NumberType::kQ4_1;
  static constexpr int kNumbers = kNibbles ? 32 : 16;

  simt::Vec<uint32_t, 4> ints = {};
  simt::Vec<simt::Half, kNibbles ? 2 : 1> scales = {};

  /// Numbers [column, column + kNumbers) of a row.
  static __device__ QuantizedPiece Load(const QuantizedMatrix& weight, int64_t row, int64_t column) {
    const simt::Global<const uint32_t> ints(static_cast<const uint32_t*>(weight.data));
    const simt::Global<const simt::Half> scales(reinterpret_cast<const simt::Half*>(
        static_cast<const char*>(weight.data) + weight.n * weight.k / (kNibbles ? 2 : 1)));
    constexpr int kScales = kNibbles ? 2 : 1;
    QuantizedPiece piece;
    piece.ints = simt::LoadVec<4>(ints, (row * weight.k + column) / kNumbers * 4);
    piece.scales = simt::LoadVec<kScales>(scales, (row * weight.k + column) / 32 * kScales);
    return piece;
  }

  /// Numbers i and i + 1 as a pair of T; i is even.
  template <class T>
  __device__ uint32_t Pair(int i) const {
    constexpr int kInWord = kNibbles ? 8 : 4, kBits = kNibbles ? 4 : 8;
    const uint32_t bits = ints.v[i / kInWord] >> (i % kInWord * kBits);
    return simt::PackPair<T>(Value(bits), Value(bits >> kBits));
  }

 private:
  /// The number that the lowest bits are. As the last bits of 2^23 they are a float without a conversion, which takes
  /// four times as long as a sum. Nothing is rounded before the last operation.
  __device__ float Value(uint32_t bits) const {
    const uint32_t shifted = 0x4b000000u | (bits & (kNibbles ? 0xfu : 0xffu));
    float number;
    memcpy(&number, &shifted, sizeof(number));
    if constexpr (kNibbles) {
      return (number - 8388608.0f) * simt::ToFloat(scales.v[0]) + simt::ToFloat(scales.v[1]);
    } else {
      return (number - (8388608.0f + 128)) * simt::ToFloat(scales.v[0]);
    }
  }
};

/// Grid (tiles of kTileRows weight rows). The weight is A of the tensor-core product and the batch its 8 columns, as in
/// SkinnyGemmKernel. A lane has 16 bytes of each of its rows, which lie side by side in memory: the four lanes of a row
/// read 64. They become fragments where they are, in registers, because the order of columns within a chunk is free as
/// long as x is read in the same one. Warps take chunks w, w + 8, w + 16 ..., the next one's weights on their way while
/// one is multiplied; their sums are added in the order of warps. That order, and the one within a chunk, are the same
/// in every instantiation of a type.
template <class T, NumberType kType, int kBatch, int kBlocks>
struct QuantizedGemmKernel {
  using Params = QuantizedGemmParams;
  using Piece = QuantizedPiece<kType>;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kWarps = 8, kThreads = kWarps * 32, kChunk = 4 * Piece::kNumbers;
  static constexpr int kTileRows = 16 * kBlocks, kColumns = kBatch / 8;
  /// Floats from one batch row of sums to the next: 4 more than the tile spread a fragment over all banks.
  static constexpr int kSumStride = kTileRows + 4;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * kBatch * kSumStride * 4);

  /// A lane's part of a chunk: of rows lane / 4 and lane / 4 + 8 of each 16.
  struct Weights {
    Piece of[kBlocks][2];
  };

  /// Zeros where the weight has neither row nor column.
  static __device__ Weights Load(const Params& p, int64_t first_row, int64_t column) {
    Weights weights;
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = first_row + r * 16 + half * 8;
        if (row < p.weight.n && column < p.weight.k) weights.of[r][half] = Piece::Load(p.weight, row, column);
      }
    }
    return weights;
  }

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
    const int64_t first_row = simt::BlockX() * kTileRows;
    int64_t column = warp * int64_t{kChunk} + lane % 4 * Piece::kNumbers;
    // Weights depend on no earlier kernel: the first come while the previous one ends.
    Weights next = Load(p, first_row + lane / 4, column);
    simt::WaitForPrerequisites();
    float sums[kBlocks][kColumns][4] = {};
    for (int64_t chunk = warp * int64_t{kChunk}; chunk < p.weight.k; chunk += kWarps * kChunk) {
      const Weights now = next;
      next = Load(p, first_row + lane / 4, column + kWarps * kChunk);
      Multiply(p, now, lane / 4, column, sums);
      column += kWarps * kChunk;
    }
    Finish(p, first_row, sums);
  }

  /// Adds a chunk to the sums. `row`: of x, of each 8; `column`: the lane's first.
  static __device__ void Multiply(const Params& p, const Weights& weights, int row, int64_t column,
                                  float (&sums)[kBlocks][kColumns][4]) {
    const simt::Global<const uint32_t> x(static_cast<const uint32_t*>(p.x));  // pairs
#pragma unroll
    for (int i = 0; i < Piece::kNumbers; i += 8) {
      simt::Vec<uint32_t, 4> columns[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        columns[c] = {};
        const int mine = c * 8 + row;
        if (mine < p.m && column < p.weight.k) {
          columns[c] = simt::LoadVec<4>(x, (mine * p.x_stride + column + i) / 2);
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

  /// The warps' sums through shared memory, then one output per thread and round.
  static __device__ void Finish(const Params& p, int64_t first_row, const float (&sums)[kBlocks][kColumns][4]) {
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
    const simt::Global<T> out(static_cast<T*>(p.out));
    for (int i = simt::ThreadX(); i < p.m * kTileRows; i += kThreads) {
      const int row = i / kTileRows, j = i % kTileRows;
      if (first_row + j >= p.weight.n) continue;
      float sum = all[row * kSumStride + j];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += all[(w * kBatch + row) * kSumStride + j];
      out[row * p.out_stride + first_row + j] = simt::FromFloat<T>(sum * p.scale);
    }
  }
};

/// Grid (blocks of kThreads pieces of 16 bytes, as many as the rows have).
template <class T, NumberType kType>
struct ExpandQuantizedKernel {
  using Params = ExpandQuantizedParams;
  using Piece = QuantizedPiece<kType>;
  static constexpr int kThreads = 256;

  static __device__ void Run(const Params& p) {
    const int64_t at = (simt::BlockX() * kThreads + simt::ThreadX()) * Piece::kNumbers, k = p.weight.k;
    if (at >= p.rows * k) return;
    const Piece piece = Piece::Load(p.weight, p.first_row + at / k, at % k);
    const simt::Global<uint32_t> out(static_cast<uint32_t*>(p.out));  // pairs
#pragma unroll
    for (int i = 0; i < Piece::kNumbers; i += 8) {
      simt::StoreVec<4>(out, (at + i) / 2,
                        simt::Vec<uint32_t, 4>{piece.template Pair<T>(i), piece.template Pair<T>(i + 2),
                                               piece.template Pair<T>(i + 4), piece.template Pair<T>(i + 6)});
    }
  }
};

}  // namespace quire::kernels
