#pragma once

#include <simt/group_mma.cuh>

#include "kernels/cuda/prefill/prefill_attention_rows.cuh"

namespace quire::kernels {

/// The shared-memory layout of tiles of 128 positions for two warpgroups. Neighbouring column groups are offset by half
/// of the banks, so the copies that fill them have no bank conflicts.
struct GroupTiles {
  static constexpr int kThreads = 256, kTokens = 128, kPad = 4;
  __host__ __device__ static constexpr int UnitAt(int group, int row, int rows) {
    return (group * (rows + kPad) + row) * 8;
  }
  static constexpr int SizeOf(int groups, int rows) { return groups * (rows + kPad) * 8; }
};

/// PrefillAttentionKernel with warpgroup products (wgmma), for head sizes 64 and 128. Two warpgroups have 64 rows each
/// and hold their queries in registers; products read keys and values directly from shared memory. While one warpgroup
/// computes its softmax, the other multiplies.
template <class T, class C, int kHeadSize>
struct PrefillGroupsKernel : PrefillRows<T, kHeadSize, 128, 8, 128, 64> {
  using Base = PrefillRows<T, kHeadSize, 128, 8, 128, 64>;
  using Params = PrefillLaunch;
  using Loader = PrefillTileLoader<T, C, kHeadSize, GroupTiles>;
  using Rows = typename Base::Rows;
  using Scores = typename Base::Scores;
  using Base::kKeys, Base::kRows, Base::kThreads;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kTokens = Loader::kTokens;
  static_assert(kKeys == kTokens && (kHeadSize == 64 || kHeadSize == 128));

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
    uint32_t own[kHeadSize / 16][4];  // queries
    for (int tile = first_tile; tile < end_tile; ++tile) {
      loader.Finish(tile);
      simt::ShareWithGroupMmas();
      simt::SyncThreads();  // the tile is complete, and all threads have left the previous one
      if (tile == first_tile) LoadQueries(queries, rows.first, own);
      if (tile + 1 < end_tile) loader.Start(tile + 1);
      if (Base::SeesNothing(p, rows, tile * kTokens, (tile + 1) * kTokens)) continue;  // uniform in the warpgroup
      Scores scores;
      MultiplyKeys(own, loader.Keys(tile), scores);
      Base::TurnIntoWeights(p, work, tile * kTokens, rows, scores);
      AddValues(loader.Values(tile), scores, rows);
    }
    if (first_tile >= end_tile) simt::WaitForCopies<0>();  // the rows see nothing of this part
    Base::StoreRows(p, work, queries, rows);
  }

  static __device__ void LoadQueries(const simt::SharedArray<T>& queries, int first_row,
                                     uint32_t (&own)[kHeadSize / 16][4]) {
    const int lane = simt::ThreadX() % 32;
    const int unit = UnitOf(lane / 16, first_row + lane % 16, kRows);
#pragma unroll
    for (int k = 0; k < kHeadSize / 16; ++k) simt::LoadMatrix<4>(own[k], queries, unit + k * 2 * kRows * 8);
  }

  /// scores = queries * keys^T.
  static __device__ void MultiplyKeys(uint32_t (&own)[kHeadSize / 16][4], const simt::SharedArray<T>& keys,
                                      Scores& scores) {
    constexpr int kStride = GroupTiles::UnitAt(1, 0, kTokens);
    simt::BeginGroupMmas(scores[0], own);
#pragma unroll
    for (int k = 0; k < kHeadSize / 16; ++k)
      simt::GroupMma<T, kKeys>(scores[0], own[k], {keys, k * 2 * kStride, kStride}, k > 0);
    simt::WaitForGroupMmas(scores[0], own);
  }

  /// out += weights * values.
  static __device__ void AddValues(const simt::SharedArray<T>& values, const Scores& weights, Rows& rows) {
    constexpr int kStride = GroupTiles::UnitAt(1, 0, kHeadSize);
    uint32_t a[kKeys / 16][4];
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&w)[4] = weights[0][k * 2 + i / 2];
        a[k][i] = simt::PackPair<T>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
      }
    }
    simt::BeginGroupMmas(rows.out[0], a);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      simt::GroupMma<T, kHeadSize>(rows.out[0], a[k], {values, k * 2 * kStride, kStride}, true);
    simt::WaitForGroupMmas(rows.out[0], a);
  }
};

}  // namespace quire::kernels
