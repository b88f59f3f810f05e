#pragma once

#include "kernels/cuda/latent/latent_attention.h"
#include "kernels/cuda/prefill/prefill_attention_tiles.cuh"

namespace quire::kernels {

struct LatentScalarLaunch {
  PrefillLaunch of;
  int32_t rank;
};

/// Latent attention without tensor cores, for fp32 and for sizes that no tensor-core kernel has; it is written to be
/// readable rather than fast. A warp processes one row at a time, 32 keys at a time, with an online softmax in fp32.
/// For scores, each lane has one key; for the weighted sum, lane l has numbers l, l + 32, ... of the latent. T: type of
/// queries and results; C: type of the cache.
template <class T, class C>
struct LatentScalarKernel {
  using Params = LatentScalarLaunch;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kRows = LatentTileRows(NumberType::kF32, 0, 0, 0);
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int kNumbers = kMostLatentRank / 32;  // numbers of the latent per lane

  static int64_t SharedSize() { return simt::SharedBytes(kWarps * kMostLatentHeadSize * 4); }

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const PrefillWork work = ReadPrefillWork(p.of, kRows);
    if (work.num_rows <= 0) return;
    simt::SharedArena arena;
    const int warp = simt::ThreadX() / 32;
    const simt::SharedArray<float> query =
        arena.template Take<float>(kWarps * kMostLatentHeadSize) + warp * kMostLatentHeadSize;
    for (int row = warp; row < work.num_rows; row += kWarps) Attend(p, work, row, query);
  }

  static __device__ void Attend(const Params& p, const PrefillWork& work, int row,
                                const simt::SharedArray<float>& query) {
    const PrefillAttentionParams& op = p.of.op;
    const int lane = simt::ThreadX() % 32, head_size = op.cache.head_size;
    const int64_t token = work.first_query + work.Query(row), head = work.Head(row);
    const simt::Global<const T> queries(static_cast<const T*>(op.queries));
    simt::SyncWarp();  // all lanes have left the previous row
    for (int d = lane; d < head_size; d += 32) {
      const T stored = queries[token * op.query_stride + head * head_size + d];
      query[d] = simt::ToFloat(stored);
    }
    simt::SyncWarp();

    const int end = work.Position(row) + 1;
    float out[kNumbers] = {}, max = -INFINITY, sum = 0;
    for (int tile = 0; tile < end; tile += 32) {
      const int count = simt::Min(end - tile, 32);
      const float score = lane < count ? Score(p.of, work, tile + lane, query) : -INFINITY;
      float tile_max = score;
      for (int mask = 16; mask > 0; mask /= 2) tile_max = simt::Max(tile_max, simt::ShuffleXor(tile_max, mask));
      const float new_max = simt::Max(max, tile_max);
      const float rescale = simt::Exp(max - new_max), weight = simt::Exp(score - new_max);
      max = new_max;
      sum = sum * rescale + weight;
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) out[i] *= rescale;
      AddValues(p, work, tile, count, weight, out);
    }
    for (int mask = 16; mask > 0; mask /= 2) sum += simt::ShuffleXor(sum, mask);
    const simt::Global<T> results(static_cast<T*>(op.out));
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int d = lane + i * 32;
      if (d >= p.rank) break;
      results[token * op.out_stride + head * p.rank + d] = simt::FromFloat<T>(out[i] * (op.cache.v_scale / sum));
    }
  }

  /// Returns the index of number d of the row at a position.
  static __device__ int64_t RowAt(const PrefillLaunch& p, const PrefillWork& work, int position, int d) {
    const int64_t block = work.table[position >> p.block_shift];
    const int block_size = p.op.cache.block_size, offset = position & (block_size - 1);
    return block * p.op.cache.key_block_stride + (d / kX * block_size + offset) * kX + d % kX;
  }

  static __device__ float Score(const PrefillLaunch& p, const PrefillWork& work, int position,
                                const simt::SharedArray<float>& query) {
    const simt::Global<const C> rows(static_cast<const C*>(p.op.cache.keys));
    const int64_t first = RowAt(p, work, position, 0);
    float score = 0;
    for (int d = 0; d < p.op.cache.head_size; d += kX) {
      const simt::Vec<C, kX> key = simt::LoadVec<kX>(rows, first + int64_t{d} * p.op.cache.block_size);
      const simt::Vec<float, kX> q = simt::LoadVec<kX>(query, d);
#pragma unroll
      for (int e = 0; e < kX; ++e) score += q.v[e] * simt::ToFloat(key.v[e]);
    }
    return score * p.scale;
  }

  /// out += weights * latents of the first `count` positions of the tile. Lane t holds the weight of position t.
  static __device__ void AddValues(const Params& p, const PrefillWork& work, int tile, int count, float weight,
                                   float (&out)[kNumbers]) {
    const int lane = simt::ThreadX() % 32, first = p.of.op.cache.head_size - p.rank;
    const simt::Global<const C> rows(static_cast<const C*>(p.of.op.cache.keys));
    for (int t = 0; t < count; ++t) {
      const float w = simt::Broadcast(weight, t);
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const int d = lane + i * 32;
        if (d >= p.rank) break;
        const C value = rows[RowAt(p.of, work, tile + t, first + d)];
        out[i] += w * simt::ToFloat(value);
      }
    }
  }
};

}  // namespace quire::kernels
