#pragma once

#include <simt/async_copy.cuh>
#include <simt/device.cuh>
#include <simt/tensor_core.cuh>

#include "kernels/combine_experts.h"
#include "kernels/cuda/experts/expert_matmul.h"

namespace quire::kernels {

/// Returns the row of x that row `row` of the product reads.
__device__ inline int64_t InputRow(const CudaExpertMatmulParams& p, int64_t row) {
  if (p.pair_of_row == nullptr) return row;
  const int32_t pair = simt::Global<const int32_t>(p.pair_of_row)[row];
  return pair / p.pairs_per_x_row;
}

/// The kernel of ExpertMatmul. The grid is (tiles of kTileRows weight rows, experts). A thread block processes the rows
/// of one expert, kBatch at a time; if the expert has no rows it exits, and the weight is not read. As in
/// skinny_gemm.cuh, the weight is A of the tensor-core product and the batch its 8 columns. Here each warp has 16
/// weight rows and all of K, and the warps share the rows of x, so no sums need merging. Sums follow the order of K,
/// whatever kBatch is.
template <class T, int kBatch>
struct ExpertMatmulKernel {
  using Params = CudaExpertMatmulParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kWarps = 4, kThreads = kWarps * 32, kStep = 64, kStages = 3;
  static constexpr int kTileRows = 16 * kWarps, kColumns = kBatch / 8;
  static constexpr int kPair = kColumns > 1 ? 2 : 1;  // column blocks per ldmatrix
  static constexpr int kStageElements = (kTileRows + kBatch) * kStep;
  static constexpr int64_t kSharedSize = simt::SharedBytes(int64_t{kStages} * kStageElements * 2);

  /// Returns the offset of a piece of 16 bytes in a stage, as in SkinnyGemmKernel: a row has 8 pieces, ordered so that
  /// the 8 row starts of an ldmatrix matrix lie in different banks.
  static constexpr int kPieces = kStep / 8, kRowsPerCopy = kThreads / kPieces;
  static __device__ int At(int row, int piece) { return row * kStep + (piece ^ row % 8) * 8; }

  /// What a thread copies: one piece of every kRowsPerCopy-th row.
  struct Source {
    simt::Global<const T> weight, x;
    int64_t first_weight;                                       // index in the weight of the thread's first row
    int64_t input[(kBatch + kRowsPerCopy - 1) / kRowsPerCopy];  // indices in x of the thread's rows; -1: no row
    int64_t k;
    int rows;  // existing rows of the tile
    int steps;
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t expert = simt::BlockY(), first_row = simt::BlockX() * kTileRows;
    const simt::Global<const int32_t> start(p.start);
    const int32_t begin = start[expert], end = start[expert + 1];
    if (begin == end) return;
    simt::SharedArena arena;
    const simt::SharedArray<T> stages = arena.template Take<T>(kStages * kStageElements);
    Source source{simt::Global<const T>(static_cast<const T*>(p.weight)) + expert * p.n * p.k,
                  simt::Global<const T>(static_cast<const T*>(p.x)),
                  first_row + simt::ThreadX() / kPieces,
                  {},
                  p.k,
                  static_cast<int>(simt::Min(p.n - first_row, int64_t{kTileRows})),
                  static_cast<int>((p.k + kStep - 1) / kStep)};
    for (int64_t row = begin; row < end; row += kBatch) {
      const int count = static_cast<int>(simt::Min(end - row, int64_t{kBatch}));
      float sums[kColumns][4] = {};
      Walk(p, row, count, source, stages, sums);
      Store(p, expert, first_row, row, count, sums);
    }
  }

  static __device__ void Walk(const Params& p, int64_t row, int count, Source& source,
                              const simt::SharedArray<T>& stages, float (&sums)[kColumns][4]) {
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
    for (int i = 0; i * kRowsPerCopy < kBatch; ++i) {
      const int mine = i * kRowsPerCopy + simt::ThreadX() / kPieces;
      source.input[i] = mine < count ? InputRow(p, row + mine) : -1;
    }
    simt::SyncThreads();  // the stages of the previous batch have been read
    for (int step = 0; step < kStages - 1; ++step) {
      Copy(source, step, stages);
      simt::CommitCopies();
    }
    for (int step = 0; step < source.steps; ++step) {
      simt::WaitForCopies<kStages - 2>();
      simt::SyncThreads();  // all threads have waited and have left the stage to fill next
      Copy(source, step + kStages - 1, stages);
      simt::CommitCopies();
      Multiply(stages + step % kStages * kStageElements, warp, lane, sums);
    }
    simt::WaitForCopies<0>();
  }

  /// Copies the tile of one step. Fills with zeros beyond the tile's rows, the batch or K.
  static __device__ void Copy(const Source& source, int step, const simt::SharedArray<T>& stages) {
    if (step >= source.steps) return;
    const simt::SharedArray<T> to = stages + step % kStages * kStageElements;
    const int row = simt::ThreadX() / kPieces, piece = simt::ThreadX() % kPieces;
    const int64_t column = int64_t{step} * kStep + piece * 8;
    const bool in_k = column < source.k;
#pragma unroll
    for (int i = 0; i < kTileRows; i += kRowsPerCopy) {
      const int64_t from = (source.first_weight + i) * source.k + column;
      simt::CopyAsync<16>(to, At(row + i, piece), source.weight, from, in_k && row + i < source.rows);
    }
#pragma unroll
    for (int i = 0; i * kRowsPerCopy < kBatch; ++i) {
      if (i * kRowsPerCopy + row >= kBatch) break;
      const int64_t from = source.input[i] * source.k + column;
      const int at = At(kTileRows + i * kRowsPerCopy + row, piece);
      simt::CopyAsync<16>(to, at, source.x, from, in_k && source.input[i] >= 0);
    }
  }

  static __device__ void Multiply(const simt::SharedArray<T>& stage, int warp, int lane, float (&sums)[kColumns][4]) {
#pragma unroll
    for (int piece = 0; piece < kPieces; piece += 2) {
      uint32_t a[4], b[kColumns / kPair][kPair * 2];  // b: two registers per 8 rows of x
      simt::LoadMatrix<4>(a, stage, At(warp * 16 + lane % 16, piece + lane / 16));
#pragma unroll
      for (int c = 0; c < kColumns / kPair; ++c) {
        const int row = kTileRows + c * kPair * 8 + lane / 16 * 8 % (kPair * 8) + lane % 8;
        simt::LoadMatrix<kPair * 2>(b[c], stage, At(row, piece + lane / 8 % 2));
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const uint32_t columns[2] = {b[c / kPair][c % kPair * 2], b[c / kPair][c % kPair * 2 + 1]};
        simt::Mma<T>(sums[c], a, columns);
      }
    }
  }

  static __device__ void Store(const Params& p, int64_t expert, int64_t first_row, int64_t row, int count,
                               const float (&sums)[kColumns][4]) {
    const int lane = simt::ThreadX() % 32, warp = simt::ThreadX() / 32;
    const simt::Global<T> y(static_cast<T*>(p.y));
    const simt::Global<const T> bias(static_cast<const T*>(p.bias));
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int mine = c * 8 + lane % 4 * 2 + i % 2;
        const int64_t column = first_row + warp * 16 + lane / 4 + i / 2 * 8;
        if (mine >= count || column >= p.n) continue;
        float sum = sums[c][i];
        if (p.bias != nullptr) {
          const T more = bias[expert * p.n + column];
          sum += simt::ToFloat(more);
        }
        y[(row + mine) * p.n + column] = simt::FromFloat<T>(sum);
      }
    }
  }
};

/// The version for fp32, without tensor cores: a thread has one weight row, and kBatch rows of x at a time.
template <>
struct ExpertMatmulKernel<float, 8> {
  using Params = CudaExpertMatmulParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 64, kBatch = 8, kTileRows = kThreads;
  static constexpr int64_t kSharedSize = 0;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t expert = simt::BlockY(), column = simt::BlockX() * kTileRows + simt::ThreadX();
    const simt::Global<const int32_t> start(p.start);
    const int32_t begin = start[expert], end = start[expert + 1];
    if (column >= p.n) return;
    const simt::Global<const float> weight =
        simt::Global<const float>(static_cast<const float*>(p.weight)) + (expert * p.n + column) * p.k;
    const simt::Global<const float> x(static_cast<const float*>(p.x)), bias(static_cast<const float*>(p.bias));
    const simt::Global<float> y(static_cast<float*>(p.y));
    for (int64_t row = begin; row < end; row += kBatch) {
      const int count = static_cast<int>(simt::Min(end - row, int64_t{kBatch}));
      int64_t inputs[kBatch];
      float sums[kBatch] = {};
      for (int i = 0; i < count; ++i) inputs[i] = InputRow(p, row + i) * p.k;
      for (int64_t k = 0; k < p.k; k += 4) {
        const simt::Vec<float, 4> w = simt::LoadVec<4>(weight, k);
        for (int i = 0; i < count; ++i) {
          const simt::Vec<float, 4> in = simt::LoadVec<4>(x, inputs[i] + k);
          for (int e = 0; e < 4; ++e) sums[i] += w.v[e] * in.v[e];
        }
      }
      float more = 0;
      if (p.bias != nullptr) more = bias[expert * p.n + column];
      for (int i = 0; i < count; ++i) y[(row + i) * p.n + column] = sums[i] + more;
    }
  }
};

/// The kernel of CombineExperts. The grid is (num_tokens, pieces of a row): one vector per thread.
template <class T>
struct CombineExpertsKernel {
  using Params = CombineExpertsParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kVec = 16 / sizeof(T);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t i = (simt::BlockY() * kThreads + simt::ThreadX()) * kVec, token = simt::BlockX();
    if (i >= p.columns) return;
    float sums[kVec] = {};
    const simt::Global<const int32_t> row_of_pair(p.row_of_pair);
    const simt::Global<const float> weights(p.weights), gates(p.shared_gate);
    for (int64_t j = 0; j < p.experts_per_token; ++j) {
      const int64_t row = row_of_pair[token * p.experts_per_token + j];
      if (row >= 0) Add(p.rows, row * p.columns + i, weights[token * p.experts_per_token + j], sums);
    }
    if (p.shared != nullptr) {
      float gate = 1;
      if (p.shared_gate != nullptr) {
        const float logit = gates[token * p.shared_gate_stride];
        gate = 1 / (1 + simt::Exp(-logit));
      }
      Add(p.shared, token * p.columns + i, gate, sums);
    }
    simt::Vec<T, kVec> out;
    for (int e = 0; e < kVec; ++e) out.v[e] = simt::FromFloat<T>(sums[e] * p.scale);
    simt::StoreVec(simt::Global<T>(static_cast<T*>(p.out)), token * p.columns + i, out);
  }

  static __device__ void Add(const void* from, int64_t at, float factor, float (&sums)[kVec]) {
    const simt::Vec<T, kVec> x = simt::LoadVec<kVec>(simt::Global<const T>(static_cast<const T*>(from)), at);
    for (int e = 0; e < kVec; ++e) sums[e] += factor * simt::ToFloat(x.v[e]);
  }
};

}  // namespace quire::kernels
