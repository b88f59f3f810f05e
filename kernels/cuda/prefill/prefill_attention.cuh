#pragma once

#include "kernels/cuda/prefill/prefill_attention_rows.cuh"

namespace quire::kernels {

/// Returns how many keys of a tile the kernel processes together. The registers for scores and results limit the
/// number.
constexpr int PrefillKeysAtOnce(int head_size) { return head_size <= 80 ? 64 : 32; }

/// The kernel of PrefillAttention on tensor cores: FlashAttention-2 over a paged cache. The grid has num_tiles *
/// num_kv_heads thread blocks. Warps share tiles of keys and values. T: type of queries and results; C: type of the
/// cache.
template <class T, class C, int kHeadSize>
struct PrefillAttentionKernel
    : PrefillRows<T, kHeadSize, PrefillTileRows(NumberType::kBF16, kHeadSize), 4, PrefillKeysAtOnce(kHeadSize),
                  PrefillTileRows(NumberType::kBF16, kHeadSize) / 4> {
  using Base = PrefillRows<T, kHeadSize, PrefillTileRows(NumberType::kBF16, kHeadSize), 4, PrefillKeysAtOnce(kHeadSize),
                           PrefillTileRows(NumberType::kBF16, kHeadSize) / 4>;
  using Params = PrefillLaunch;
  using Loader = PrefillTileLoader<T, C, kHeadSize, WarpTiles<kHeadSize>>;
  using Rows = typename Base::Rows;
  using Scores = typename Base::Scores;
  using Base::kKeys, Base::kRows, Base::kSlabs, Base::kThreads;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kTokens = Loader::kTokens;

  static int64_t SharedSize() {
    return simt::SharedBytes(kRows * kHeadSize * static_cast<int64_t>(sizeof(T))) + Loader::SharedSize();
  }

  static __device__ void Run(const PrefillLaunch& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const PrefillWork work = ReadPrefillWork(p, kRows);
    if (work.num_rows <= 0) return;  // uniform in the thread block
    simt::SharedArena arena;
    const simt::SharedArray<T> queries = arena.Take<T>(kRows * kHeadSize);
    Loader loader(p, work, arena);
    Base::CopyQueries(p, work, queries);
    const int first_tile = work.begin / kTokens, end_tile = (work.end + kTokens - 1) / kTokens;
    loader.Start(first_tile);

    Rows rows = Base::Begin(p, work);
    for (int tile = first_tile; tile < end_tile; ++tile) {
      loader.Finish(tile);
      simt::SyncThreads();  // the tile is complete, and all threads have left the previous one
      if (tile + 1 < end_tile) loader.Start(tile + 1);
#pragma unroll
      for (int part = 0; part < kTokens / kKeys; ++part) {
        const int begin = tile * kTokens + part * kKeys;
        if (Base::SeesNothing(p, rows, begin, begin + kKeys)) continue;  // uniform in the warp
        Scores scores = {};
        MultiplyKeys(queries, loader.Keys(tile), part * kKeys, rows.first, scores);
        Base::TurnIntoWeights(p, work, begin, rows, scores);
        AddValues(loader.Values(tile), part * kKeys, scores, rows);
      }
    }
    if (first_tile >= end_tile) simt::WaitForCopies<0>();  // the rows see nothing of this part
    Base::StoreRows(p, work, queries, rows);
  }

  /// scores = queries * keys^T for keys first_key .. first_key + kKeys - 1 of the tile.
  static __device__ void MultiplyKeys(const simt::SharedArray<T>& queries, const simt::SharedArray<T>& keys,
                                      int first_key, int first_row, Scores& scores) {
    const int lane = simt::ThreadX() % 32;
    const int query_unit = UnitOf(lane / 16, first_row + lane % 16, kRows);
    const int key_unit = UnitOf(lane / 8 % 2, lane % 8 + lane / 16 * 8, kTokens);
#pragma unroll
    for (int k = 0; k < kHeadSize / 16; ++k) {
      uint32_t a[kSlabs][4];
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) simt::LoadMatrix<4>(a[s], queries, query_unit + (k * 2 * kRows + s * 16) * 8);
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t b[4];
        simt::LoadMatrix<4>(b, keys, key_unit + (k * 2 * kTokens + first_key + n * 16) * 8);
        MultiplyPair(a, b, n, scores);
      }
    }
  }

  /// out += weights * values, for positions first_key .. first_key + kKeys - 1 of the tile.
  static __device__ void AddValues(const simt::SharedArray<T>& values, int first_key, const Scores& weights,
                                   Rows& rows) {
    const int lane = simt::ThreadX() % 32;
    const int value_unit = UnitOf(lane / 8 % 2, lane % 8 + lane / 16 * 8, kHeadSize);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      uint32_t a[kSlabs][4];
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&w)[4] = weights[s][k * 2 + i / 2];
          a[s][i] = simt::PackPair<T>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int n = 0; n < kHeadSize / 16; ++n) {
        uint32_t b[4];
        simt::LoadMatrix<4>(b, values, value_unit + ((first_key / 8 + k * 2) * kHeadSize + n * 16) * 8);
        MultiplyPair(a, b, n, rows.out);
      }
    }
  }

  /// d[:, 16 n .. 16 n + 15] += a * b.
  template <int kColumns>
  static __device__ void MultiplyPair(const uint32_t (&a)[kSlabs][4], const uint32_t (&b)[4], int n,
                                      float (&d)[kSlabs][kColumns][4]) {
    const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      simt::Mma<T>(d[s][n * 2], a[s], low);
      simt::Mma<T>(d[s][n * 2 + 1], a[s], high);
    }
  }
};

}  // namespace quire::kernels
