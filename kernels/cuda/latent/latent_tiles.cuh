#pragma once

#include "kernels/cuda/latent/latent_loader.cuh"

namespace quire::kernels {

/// Attention of up to 16 * kSlabs rows over a range of positions, with tensor cores. A warp has one slab of 16 rows and
/// one of kSlices slices: for scores a slice of a tile's rows (its keys), for results a slice of the latent. The warps
/// of a slab exchange scores through shared memory, and each warp turns all scores of the slab into weights. Scores and
/// sums are fp32; weights are rounded to T. T: type of queries and results; C: type of the cache.
template <class T, class C, int kSlabsOfBlock, int kSlicesOfSlab>
struct LatentTiles {
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kSlabs = kSlabsOfBlock, kSlices = kSlicesOfSlab, kWarps = kSlabs * kSlices;
  static constexpr int kRows = 16 * kSlabs, kThreads = 32 * kWarps;
  static constexpr int kKeys = kLatentTokens / kSlices;   // keys of a slice
  static constexpr int kColumns = kLatentRank / kSlices;  // latent numbers of a slice
  static constexpr int kUnits = kColumns / 8;             // units of 8 latent numbers in a slice
  static constexpr int kSteps = kLatentTokens / 16;       // steps of a product with a tile's values
  static constexpr int kFirstValue = kLatentHeadSize - kLatentRank;
  static constexpr float kLog2E = 1.44269504f;
  using Loader = LatentLoader<T, C, kWarps>;
  static_assert(kKeys == 16 || kKeys == 8);

  struct Shared {
    simt::SharedArray<T> queries;  // [kLatentHeadSize / 8, kRows, 8], UnitOf
    typename Loader::Memory tiles;
    simt::SharedArray<float> scores;  // [kRows, kLatentScoreStride]
  };
  static __device__ Shared Take(simt::SharedArena& arena) {
    const simt::SharedArray<T> queries = arena.template Take<T>(kRows * kLatentHeadSize);
    const typename Loader::Memory tiles = Loader::Take(arena);
    return {queries, tiles, arena.template Take<float>(kRows * kLatentScoreStride)};
  }
  static constexpr int64_t SharedSize() {
    return simt::SharedBytes(kRows * kLatentHeadSize * sizeof(T)) + Loader::SharedSize() +
           simt::SharedBytes(kRows * kLatentScoreStride * 4);
  }

  /// A lane's part of two rows of its slab: row lane / 4 and the row 8 below. In every 8 columns of its slice, the lane
  /// has column lane % 4 * 2 and the next column, as in the result of an mma instruction. Maxima are base-2 exponents.
  /// A sum covers the lane's own columns; Sum() adds the sums of the lanes that share a row.
  struct Rows {
    float out[kUnits][4] = {};
    float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    int limit[2] = {};  // the last position that the row sees
  };
  /// Weights in the layout of an mma's first operand: [steps of 16 keys][row lane / 4, the row 8 below, then both for
  /// the keys 8 further][two neighbouring keys].
  using Weights = float[kSteps][4][2];

  static __device__ int Lane() { return simt::ThreadX() % 32; }
  static __device__ int Slab() { return simt::ThreadX() / 32 / kSlices; }
  static __device__ int Slice() { return simt::ThreadX() / 32 % kSlices; }
  /// Returns the lane's upper (half 0) or lower (half 1) row of the block.
  static __device__ int RowOf(int half) { return Slab() * 16 + half * 8 + Lane() / 4; }

  /// Attends to the positions [work.begin, work.end). There are no windows, so work.begin is a multiple of
  /// kLatentTokens, and every row sees the first position. Op: PrefillAttentionParams or DecodeAttentionParams. All
  /// threads of the block call this; before another call they need a barrier.
  template <class Op>
  static __device__ void Attend(const Op& op, const PrefillWork& work, const Shared& shared, Rows& rows) {
    Loader loader(op.cache, work, shared.tiles);
    const int first_tile = work.begin / kLatentTokens, end_tile = (work.end + kLatentTokens - 1) / kLatentTokens;
    CopyQueries(op, work, shared.queries);
    loader.Start(first_tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.limit[half] = work.Position(simt::Min(RowOf(half), work.num_rows - 1));
    }
    const float factor = op.scale * op.cache.k_scale * kLog2E;
    for (int tile = first_tile; tile < end_tile; ++tile) {
      loader.Finish();
      simt::SyncThreads();  // the tile is complete, and all threads have left the previous one and its scores
      if (tile + 1 < end_tile) loader.Start(tile + 1);
      WriteScores(shared, loader.Tile(tile), tile * kLatentTokens, factor, rows);
      simt::SyncThreads();
      Weights weights;
      ReadScores(shared.scores, weights);
      Weigh(rows, weights);
      AddValues(loader.Tile(tile), weights, rows);
    }
    if (first_tile >= end_tile) simt::WaitForCopies<0>();  // the sequence only pads the batch
  }

  /// Starts copying the rows' queries; rows past the end become zeros.
  template <class Op>
  static __device__ void CopyQueries(const Op& op, const PrefillWork& work, const simt::SharedArray<T>& queries) {
    const simt::Global<const T> from(static_cast<const T*>(op.queries));
    for (int i = simt::ThreadX(); i < kRows * kLatentHeadSize / 8; i += kThreads) {
      const int row = i / 2 % kRows, unit = i / (2 * kRows) * 2 + i % 2;
      const int real = simt::Min(row, work.num_rows - 1);
      const int64_t base = (work.first_query + work.Query(real)) * op.query_stride + work.Head(real) * kLatentHeadSize;
      simt::CopyAsync<16>(queries, UnitOf(unit, row, kRows), from, base + unit * 8, row < work.num_rows);
    }
  }

  /// Computes the scores of the slice's keys. Scores of keys that a row does not see become -infinity. `position`:
  /// position of the tile's first key.
  static __device__ void WriteScores(const Shared& shared, const simt::SharedArray<T>& tile, int position, float factor,
                                     const Rows& rows) {
    float scores[kKeys / 8][4] = {};
    MultiplyKeys(shared.queries, tile, scores);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const int column = Slice() * kKeys + n * 8 + Lane() % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        simt::Vec<float, 2> pair;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = position + column + e;
          pair.v[e] = key <= rows.limit[half] ? scores[n][half * 2 + e] * factor : -INFINITY;
        }
        simt::StoreVec<2>(shared.scores, RowOf(half) * kLatentScoreStride + column, pair);
      }
    }
  }

  /// scores = the slab's queries * the slice's keys^T.
  static __device__ void MultiplyKeys(const simt::SharedArray<T>& queries, const simt::SharedArray<T>& tile,
                                      float (&scores)[kKeys / 8][4]) {
    const int lane = Lane(), query_unit = UnitOf(lane / 16, Slab() * 16 + lane % 16, kRows);
    if constexpr (kKeys == 16) {
      const int key_unit = UnitOf(lane / 8 % 2, Slice() * 16 + lane % 8 + lane / 16 * 8, kLatentTokens);
#pragma unroll
      for (int k = 0; k < kLatentHeadSize / 16; ++k) {
        uint32_t a[4], b[4];
        simt::LoadMatrix<4>(a, queries, query_unit + k * 2 * kRows * 8);
        simt::LoadMatrix<4>(b, tile, key_unit + k * 2 * kLatentTokens * 8);
        MultiplyPair(a, b, scores[0], scores[1]);
      }
    } else {
      float odd[4] = {};  // a second sum, so that a product need not wait for the one before it
      const int key_unit = UnitOf(lane / 8, Slice() * 8 + lane % 8, kLatentTokens);
#pragma unroll
      for (int k = 0; k < kLatentHeadSize / 32; ++k) {
        uint32_t a[2][4], b[4];
        simt::LoadMatrix<4>(b, tile, key_unit + k * 4 * kLatentTokens * 8);
#pragma unroll
        for (int i = 0; i < 2; ++i) simt::LoadMatrix<4>(a[i], queries, query_unit + (k * 4 + i * 2) * kRows * 8);
        const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
        simt::Mma<T>(scores[0], a[0], low);
        simt::Mma<T>(odd, a[1], high);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[0][i] += odd[i];
    }
  }

  /// low += a * b's first 8 columns, high += a * the others.
  static __device__ void MultiplyPair(const uint32_t (&a)[4], const uint32_t (&b)[4], float (&low)[4],
                                      float (&high)[4]) {
    const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
    simt::Mma<T>(low, a, first);
    simt::Mma<T>(high, a, second);
  }

  static __device__ void ReadScores(const simt::SharedArray<float>& scores, Weights& weights) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = k * 16 + i / 2 * 8 + Lane() % 4 * 2;
        const simt::Vec<float, 2> pair = simt::LoadVec<2>(scores, RowOf(i % 2) * kLatentScoreStride + column);
        weights[k][i][0] = pair.v[0], weights[k][i][1] = pair.v[1];
      }
    }
  }

  /// Turns scores into weights relative to the rows' largest score until now, and rescales the sums.
  static __device__ void Weigh(Rows& rows, Weights& weights) {
    float rescale[2];
    bool changes = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = rows.max[half];
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
#pragma unroll
        for (int i = half; i < 4; i += 2) max = simt::Max(max, simt::Max(weights[k][i][0], weights[k][i][1]));
      }
      max = simt::Max(max, simt::ShuffleXor(max, 1));
      max = simt::Max(max, simt::ShuffleXor(max, 2));
      rescale[half] = simt::Exp2(rows.max[half] - max);  // exactly 1 if the maximum stays
      changes = changes || rescale[half] != 1.0f;
      rows.max[half] = max;
      float sum = rows.sum[half] * rescale[half];
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
#pragma unroll
        for (int i = half; i < 4; i += 2) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            weights[k][i][e] = simt::Exp2(weights[k][i][e] - max);
            sum += weights[k][i][e];
          }
        }
      }
      rows.sum[half] = sum;
    }
    if (!simt::Any(changes)) return;  // the usual case, because the largest scores come early
#pragma unroll
    for (int n = 0; n < kUnits; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.out[n][i] *= rescale[i / 2];
    }
  }

  /// out += weights * the slice's latent numbers.
  static __device__ void AddValues(const simt::SharedArray<T>& tile, const Weights& weights, Rows& rows) {
    const int lane = Lane();
    const int unit =
        UnitOf(lane / 16, lane % 16, kLatentTokens) + (kFirstValue + Slice() * kColumns) / 8 * kLatentTokens * 8;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = simt::PackPair<T>(weights[k][i][0], weights[k][i][1]);
#pragma unroll
      for (int n = 0; n < kUnits; n += 2) {
        uint32_t b[4];
        simt::LoadMatrixTransposed<4>(b, tile, unit + (n * kLatentTokens + k * 16) * 8);
        MultiplyPair(a, b, rows.out[n], rows.out[n + 1]);
      }
    }
  }

  /// Returns the row's sum of weights: the sum over the four lanes that share it.
  static __device__ float Sum(const Rows& rows, int half) {
    float sum = rows.sum[half] + simt::ShuffleXor(rows.sum[half], 1);
    return sum + simt::ShuffleXor(sum, 2);
  }

  /// Writes a row's results times `factor`, as numbers of type N. `at`: the row's first number.
  template <class N>
  static __device__ void StoreRow(const simt::Global<N>& to, int64_t at, int half, float factor, const Rows& rows) {
#pragma unroll
    for (int n = 0; n < kUnits; ++n) {
      const simt::Vec<N, 2> pair{
          {simt::FromFloat<N>(rows.out[n][half * 2] * factor), simt::FromFloat<N>(rows.out[n][half * 2 + 1] * factor)}};
      simt::StoreVec<2>(to, at + Slice() * kColumns + n * 8 + Lane() % 4 * 2, pair);
    }
  }
};

}  // namespace quire::kernels
