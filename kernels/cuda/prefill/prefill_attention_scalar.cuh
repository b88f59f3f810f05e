#pragma once

#include "kernels/cuda/decode/attention_sink.cuh"
#include "kernels/cuda/prefill/prefill_attention_tiles.cuh"

namespace quire::kernels {

/// Prefill attention without tensor cores, for fp32 and for heads that need more registers than PrefillAttentionKernel
/// has. It is written to be readable rather than fast. A warp processes one row at a time, 32 keys at a time, with an
/// online softmax in fp32. Each lane computes the score of one key, and sums dimensions lane, lane + 32, ... of the
/// weighted values. T: type of queries and results; C: type of the cache; kMostDims: largest head size.
template <class T, class C, int kMostDims>
struct PrefillAttentionScalarKernel {
  using Params = PrefillLaunch;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kRows = PrefillTileRows(NumberType::kF32, kMostDims);
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int kDims = kMostDims / 32;  // dimensions per lane

  static int64_t SharedSize() { return simt::SharedBytes(kWarps * kMostDims * 4); }

  static __device__ void Run(const PrefillLaunch& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const PrefillWork work = ReadPrefillWork(p, kRows);
    if (work.num_rows <= 0) return;
    simt::SharedArena arena;
    const int warp = simt::ThreadX() / 32;
    const simt::SharedArray<float> query = arena.template Take<float>(kWarps * kMostDims) + warp * kMostDims;
    for (int row = warp; row < work.num_rows; row += kWarps) Attend(p, work, row, query);
  }

  static __device__ void Attend(const PrefillLaunch& p, const PrefillWork& work, int row,
                                const simt::SharedArray<float>& query) {
    const int lane = simt::ThreadX() % 32, head_size = p.op.cache.head_size;
    const int64_t token = work.first_query + work.Query(row), head = work.Head(row);
    const simt::Global<const T> queries(static_cast<const T*>(p.op.queries));
    simt::SyncWarp();  // all lanes have left the previous row
    for (int d = lane; d < head_size; d += 32) {
      const T stored = queries[token * p.op.query_stride + head * head_size + d];
      query[d] = simt::ToFloat(stored);
    }
    simt::SyncWarp();

    const int end = work.Position(row) + 1, begin = simt::Max(end - p.window, 0);
    float out[kDims] = {}, max = -INFINITY, sum = 0;
    for (int tile = begin; tile < end; tile += 32) {
      const int count = simt::Min(end - tile, 32);
      const float score = lane < count ? Score(p, work, row, tile + lane, query) : -INFINITY;
      float tile_max = score;
      for (int mask = 16; mask > 0; mask /= 2) tile_max = simt::Max(tile_max, simt::ShuffleXor(tile_max, mask));
      const float new_max = simt::Max(max, tile_max);
      const float rescale = simt::Exp(max - new_max), weight = simt::Exp(score - new_max);
      max = new_max;
      sum = sum * rescale + weight;
#pragma unroll
      for (int i = 0; i < kDims; ++i) out[i] *= rescale;
      AddValues(p, work, tile, count, weight, out);
    }
    for (int mask = 16; mask > 0; mask /= 2) sum += simt::ShuffleXor(sum, mask);
    sum += SinkWeight(p.op.sinks, head, max * 1.44269504f);
    const simt::Global<T> results(static_cast<T*>(p.op.out));
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      const int d = lane + i * 32;
      if (d < head_size) {
        results[token * p.op.out_stride + head * head_size + d] =
            simt::FromFloat<T>(out[i] * (p.op.cache.v_scale / sum));
      }
    }
  }

  static __device__ float Score(const PrefillLaunch& p, const PrefillWork& work, int row, int position,
                                const simt::SharedArray<float>& query) {
    const int head_size = p.op.cache.head_size, block_size = p.op.cache.block_size;
    const int64_t block = work.table[position >> p.block_shift];
    const int64_t base = block * p.op.cache.key_block_stride + int64_t{work.kv_head} * (head_size * block_size);
    const simt::Global<const C> keys = simt::Global<const C>(static_cast<const C*>(p.op.cache.keys)) + base;
    float score = 0;
    for (int d = 0; d < head_size; d += kX) {
      const int at = d * block_size + (position & (block_size - 1)) * kX;
      const simt::Vec<C, kX> key = simt::LoadVec<kX>(keys, at);
      const simt::Vec<float, kX> q = simt::LoadVec<kX>(query, d);
#pragma unroll
      for (int e = 0; e < kX; ++e) score += q.v[e] * simt::ToFloat(key.v[e]);
    }
    score *= p.scale;
    if (p.op.soft_cap > 0) score = p.op.soft_cap * simt::Tanh(score / p.op.soft_cap);
    if (p.op.alibi_slopes == nullptr) return score;
    const float slope = simt::Global<const float>(p.op.alibi_slopes)[work.Head(row)];
    return score + slope * static_cast<float>(position - work.Position(row));
  }

  /// out += weights * values for positions [tile, tile + count). Lane t holds the weight of position tile + t.
  static __device__ void AddValues(const PrefillLaunch& p, const PrefillWork& work, int tile, int count, float weight,
                                   float (&out)[kDims]) {
    const int lane = simt::ThreadX() % 32, head_size = p.op.cache.head_size, block_size = p.op.cache.block_size;
    const simt::Global<const C> values(static_cast<const C*>(p.op.cache.values));
    for (int t = 0; t < count; ++t) {
      const float w = simt::Broadcast(weight, t);
      const int64_t block = work.table[(tile + t) >> p.block_shift];
      const int64_t base = block * p.op.cache.value_block_stride + int64_t{work.kv_head} * (head_size * block_size);
      const int offset = (tile + t) & (block_size - 1);
#pragma unroll
      for (int i = 0; i < kDims; ++i) {
        const int d = lane + i * 32;
        if (d >= head_size) break;
        const C value = values[base + d * block_size + offset];
        out[i] += w * simt::ToFloat(value);
      }
    }
  }
};

}  // namespace quire::kernels
