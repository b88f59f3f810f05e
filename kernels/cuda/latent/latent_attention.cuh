#pragma once

#include "kernels/cuda/decode/decode_attention_tiles.cuh"
#include "kernels/cuda/latent/latent_tiles.cuh"
#include "kernels/cuda/prefill/prefill_attention_parts.cuh"

namespace quire::kernels {

/// The kernel of LatentPrefill on tensor cores. The grid has num_tiles thread blocks.
template <class T, class C, int kSlabs, int kSlices>
struct LatentPrefillKernel : LatentTiles<T, C, kSlabs, kSlices> {
  using Params = PrefillLaunch;
  using Tiles = LatentTiles<T, C, kSlabs, kSlices>;
  using Tiles::kRows;
  using typename Tiles::Rows;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const PrefillWork work = ReadPrefillWork(p, kRows);
    if (work.num_rows <= 0) return;  // uniform in the thread block
    simt::SharedArena arena;
    const typename Tiles::Shared shared = Tiles::Take(arena);
    Rows rows;
    Tiles::Attend(p.op, work, shared, rows);
    const simt::Global<T> out(static_cast<T*>(p.op.out));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = Tiles::Sum(rows, half);
      const int row = Tiles::RowOf(half);
      if (row >= work.num_rows) continue;
      if (work.slot >= 0) {
        StorePart(p, work, row, half, sum, rows);
        continue;
      }
      const int64_t at = (work.first_query + work.Query(row)) * p.op.out_stride + work.Head(row) * kLatentRank;
      Tiles::StoreRow(out, at, half, p.op.cache.v_scale / sum, rows);
    }
  }

  /// Writes a row's partial results as CombinePrefillKernel reads them.
  static __device__ void StorePart(const Params& p, const PrefillWork& work, int row, int half, float sum,
                                   const Rows& rows) {
    const int64_t at = PrefillPartAt(p, work, work.slot, row, kRows, kLatentRank);
    const simt::Global<float> parts(p.op.workspace);
    Tiles::StoreRow(parts, at, half, 1.0f, rows);
    if (Tiles::Slice() > 0 || Tiles::Lane() % 4 > 0) return;
    simt::StoreVec<2>(parts, at + kLatentRank, simt::Vec<float, 2>{{rows.max[half], sum}});
  }
};

/// The kernel of LatentDecode. The grid has num_ctas thread blocks; each processes its items of the work list, one
/// after the other.
template <class T, class C>
struct LatentDecodeKernel : LatentTiles<T, C, kDecodeRows / 16, 4> {
  using Params = DecodeAttentionLaunch;
  using Tiles = LatentTiles<T, C, kDecodeRows / 16, 4>;
  using typename Tiles::Rows;

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const typename Tiles::Shared shared = Tiles::Take(arena);
    const simt::Global<const int32_t> first = simt::Global<const int32_t>(p.op.work) + p.first_items_at;
    const int begin = first[simt::BlockX()], end = first[simt::BlockX() + 1];
    for (int item = begin; item < end; ++item) {
      if (item > begin) simt::SyncThreads();  // all threads have left the previous item's queries and tiles
      const PrefillWork work = ItemOf(p, item);
      Rows rows;
      Tiles::Attend(p.op, work, shared, rows);
      Store(p, work, rows);
    }
  }

  /// Returns an item of the work list as rows of one query.
  static __device__ PrefillWork ItemOf(const Params& p, int item) {
    const simt::Global<const int32_t> work(p.op.work);
    const simt::Vec<int32_t, 4> who = simt::LoadVec<4>(work, p.items_at + item * 8);
    const simt::Vec<int32_t, 4> range = simt::LoadVec<4>(work, p.items_at + item * 8 + 4);
    int64_t table_row = who.v[0];
    if (p.op.table_rows != nullptr) table_row = simt::Global<const int32_t>(p.op.table_rows)[who.v[0]];
    return {.num_rows = who.v[3],
            .first_row = 0,
            .group = who.v[3],
            .first_head = who.v[2],
            .kv_head = 0,
            .first_position = range.v[2] - 1,
            .first_query = who.v[0],
            .begin = range.v[0],
            .end = range.v[1],
            .slot = range.v[3],
            .table = simt::Global<const int32_t>(p.op.block_tables) + table_row * p.op.table_stride};
  }

  /// Writes the rows' results, or their partial results as CombineDecodeKernel reads them.
  static __device__ void Store(const Params& p, const PrefillWork& work, const Rows& rows) {
    const simt::Global<T> out(static_cast<T*>(p.op.out));
    const simt::Global<float> partial(p.partial), max_score(p.max_score), exp_sum(p.exp_sum);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = Tiles::Sum(rows, half);
      const int row = Tiles::RowOf(half);
      if (row >= work.num_rows) continue;
      const float factor = work.begin < work.end ? p.op.cache.v_scale / sum : 0;
      if (work.slot < 0) {
        const int64_t at = work.first_query * p.op.out_stride + work.Head(row) * kLatentRank;
        Tiles::StoreRow(out, at, half, factor, rows);
        continue;
      }
      const int64_t at = int64_t{work.slot} * kDecodeRows + row;
      Tiles::StoreRow(partial, at * kLatentRank, half, factor, rows);
      if (Tiles::Slice() > 0 || Tiles::Lane() % 4 > 0) continue;
      max_score[at] = rows.max[half];
      exp_sum[at] = sum;
    }
  }
};

}  // namespace quire::kernels
