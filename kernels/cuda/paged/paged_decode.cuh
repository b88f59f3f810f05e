#pragma once

#include <algorithm>
#include <cfloat>

#include "kernels/cuda/paged/paged_decode.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels {

/// Returns the block table of a sequence.
__device__ inline simt::Global<const int32_t> TableOf(const PagedDecodeParams& p, int64_t seq) {
  int64_t row = seq;
  if (p.table_rows != nullptr) row = simt::Global<const int32_t>(p.table_rows)[seq];
  return simt::Global<const int32_t>(p.block_tables) + row * p.table_stride;
}

/// Returns what a head's attention sink adds to a sum of softmax weights that are relative to exp(max); 0 without
/// sinks. With partitions, only the kernel that combines them adds the sink.
__device__ inline float SinkWeightOf(const PagedDecodeParams& p, int64_t head, float max) {
  if (p.sinks == nullptr) return 0;
  const float sink = simt::Global<const float>(p.sinks)[head];
  return simt::Exp(sink - max);
}

struct DecodeLaunch {
  PagedDecodeParams op;
  int32_t partition;       // tokens per partition, a multiple of the block size
  int32_t num_partitions;  // 1: results go to op.out
  int32_t max_scores;      // capacity in shared memory: all tokens of the blocks that a partition touches
  // Workspace of v2 with an entry for each (sequence, head, partition): results, [.., head_size]; largest scores; sums
  // of exponentials.
  float *partial, *max_score, *exp_sum;
};

/// The kernel of PagedDecode. The grid is (num_heads, num_seqs, num_partitions). T: type of queries and results; C:
/// type of the cache. Each warp processes every kWarps-th block of the table. For scores, kGroup neighbouring lanes
/// share a token and read its key 16 bytes at a time. For the weighted sum, a lane reads up to 16 bytes of a row of
/// values, which belong to one dimension of neighbouring tokens.
template <class T, class C, int kHeadSize, int kBlockSize>
struct PagedDecodeKernel {
  using Params = DecodeLaunch;
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int kGroup = kBlockSize < 32 ? 32 / kBlockSize : 1;
  static constexpr int kKeyVec = kX / kGroup;  // elements of a key per lane and load
  static constexpr int kValueVec = std::min(kX, kBlockSize);
  static constexpr int kVecsPerRow = kBlockSize / kValueVec;
  static constexpr int kRowsPerPass = 32 / kVecsPerRow;
  static constexpr int kRows = (kHeadSize + kRowsPerPass - 1) / kRowsPerPass;  // rows per lane
  static_assert(kKeyVec >= 1 && kHeadSize % kX == 0);

  static int64_t SharedSize(int64_t max_scores) {
    return simt::SharedBytes(kHeadSize * 4) + simt::SharedBytes(max_scores * 4) + 2 * simt::SharedBytes(kWarps * 4) +
           simt::SharedBytes(kWarps * kHeadSize * 4);
  }

  /// The work of one thread block. Scores are indexed by position - origin.
  struct Range {
    int begin, end;  // visible positions
    int first_block, end_block, origin;
    int position;  // the query's position
  };

  static __device__ void Run(const DecodeLaunch& p) {
    const int head = static_cast<int>(simt::BlockX()), thread = simt::ThreadX();
    const int64_t seq = simt::BlockY();
    const int partition = static_cast<int>(simt::BlockZ());
    const simt::Global<T> out = simt::Global<T>(static_cast<T*>(p.op.out)) + (seq * p.op.out_stride + head * kHeadSize);

    const int context = simt::Global<const int32_t>(p.op.context_len)[seq];
    const int window_begin = p.op.window > 0 ? simt::Max(context - p.op.window, 0) : 0;
    const int begin = simt::Max(window_begin, partition * p.partition);
    const int end = simt::Min(context, (partition + 1) * p.partition);
    if (begin >= end) {  // uniform in the thread block
      if (p.num_partitions > 1) return;
      for (int d = thread; d < kHeadSize; d += kThreads) out[d] = simt::FromFloat<T>(0.0f);
      return;
    }
    const Range range{
        begin,      end, begin / kBlockSize, (end + kBlockSize - 1) / kBlockSize, begin / kBlockSize * kBlockSize,
        context - 1};

    simt::SharedArena arena;
    const simt::SharedArray<float> query = arena.template Take<float>(kHeadSize);
    const simt::SharedArray<float> scores = arena.template Take<float>(p.max_scores);
    const simt::SharedArray<float> warp_max = arena.template Take<float>(kWarps);
    const simt::SharedArray<float> warp_sum = arena.template Take<float>(kWarps);
    const simt::SharedArray<float> sums = arena.template Take<float>(kWarps * kHeadSize);

    LoadQuery(p.op, query);
    simt::SyncThreads();

    const float max = BlockReduce<kWarps>(Scores(p.op, range, query, scores), warp_max, MaxOf{});
    float sum = 0;
    for (int t = range.begin - range.origin + thread; t < range.end - range.origin; t += kThreads) {
      const float weight = simt::Exp(scores[t] - max);
      scores[t] = weight;
      sum += weight;
    }
    sum = BlockReduce<kWarps>(sum, warp_sum, SumOf{});

    WeightedSum(p.op, range, scores, sums);
    simt::SyncThreads();
    const float factor = p.op.cache.v_scale / (p.num_partitions > 1 ? sum : sum + SinkWeightOf(p.op, head, max));
    const int64_t part = (seq * p.op.num_heads + head) * p.num_partitions + partition;
    const simt::Global<float> partial(p.partial);
    for (int d = thread; d < kHeadSize; d += kThreads) {
      float value = 0;
      for (int w = 0; w < kWarps; ++w) value += sums[w * kHeadSize + d];
      if (p.num_partitions == 1) {
        out[d] = simt::FromFloat<T>(value * factor);
      } else {
        partial[part * kHeadSize + d] = value * factor;
      }
    }
    if (p.num_partitions > 1 && thread == 0) {
      simt::Global<float>(p.max_score)[part] = max;
      simt::Global<float>(p.exp_sum)[part] = sum;
    }
  }

  /// Loads query[d], multiplied by the scale of the stored keys.
  static __device__ void LoadQuery(const PagedDecodeParams& p, const simt::SharedArray<float>& query) {
    const simt::Global<const T> queries(static_cast<const T*>(p.queries));
    const int64_t row = simt::BlockY() * p.query_stride + simt::BlockX() * kHeadSize;
    const float scale = p.scale * p.cache.k_scale;
    for (int d = simt::ThreadX(); d < kHeadSize; d += kThreads) {
      const T q = queries[row + d];
      query[d] = simt::ToFloat(q) * scale;
    }
  }

  /// Writes the scores of all positions in the range's blocks, 0 for invisible ones. Returns the largest visible score
  /// that this thread has computed.
  static __device__ float Scores(const PagedDecodeParams& p, const Range& range, const simt::SharedArray<float>& query,
                                 const simt::SharedArray<float>& scores) {
    const int head = static_cast<int>(simt::BlockX()), lane = simt::ThreadX() % 32;
    const int member = lane % kGroup;
    const simt::Global<const C> keys(static_cast<const C*>(p.cache.keys));
    const simt::Global<const int32_t> table = TableOf(p, simt::BlockY());
    const int64_t kv_head = simt::Global<const int32_t>(p.kv_head_of)[head];
    const float slope = p.alibi_slopes != nullptr ? simt::Global<const float>(p.alibi_slopes)[head] : 0.0f;

    float max = -FLT_MAX;
    for (int b = range.first_block + simt::ThreadX() / 32; b < range.end_block; b += kWarps) {
      const int64_t block = table[b];  // 64 bits: block * stride exceeds 2^31 in any large pool
      const int64_t base = block * p.cache.key_block_stride + kv_head * (kHeadSize * kBlockSize);
      for (int token = lane / kGroup; token < kBlockSize; token += 32 / kGroup) {
        float score = 0;
#pragma unroll
        for (int chunk = 0; chunk < kHeadSize / kX; ++chunk) {
          const int at = (chunk * kBlockSize + token) * kX + member * kKeyVec;
          const simt::Vec<C, kKeyVec> key = simt::LoadVec<kKeyVec>(keys, base + at);
          const simt::Vec<float, kKeyVec> q = simt::LoadVec<kKeyVec>(query, chunk * kX + member * kKeyVec);
#pragma unroll
          for (int e = 0; e < kKeyVec; ++e) score += q.v[e] * simt::ToFloat(key.v[e]);
        }
        for (int mask = kGroup / 2; mask > 0; mask /= 2) score += simt::ShuffleXor(score, mask);
        if (p.soft_cap > 0) score = p.soft_cap * simt::Tanh(score / p.soft_cap);
        const int position = b * kBlockSize + token;
        score += slope * static_cast<float>(position - range.position);
        const bool counts = position >= range.begin && position < range.end;
        if (member == 0) scores[position - range.origin] = counts ? score : 0.0f;
        if (counts) max = simt::Max(max, score);
      }
    }
    return max;
  }

  /// sums[warp, d] = sum over the warp's blocks of weight * value[d].
  static __device__ void WeightedSum(const PagedDecodeParams& p, const Range& range,
                                     const simt::SharedArray<float>& weights, const simt::SharedArray<float>& sums) {
    const int warp = simt::ThreadX() / 32, lane = simt::ThreadX() % 32;
    const int first_token = lane % kVecsPerRow * kValueVec, first_row = lane / kVecsPerRow;
    const simt::Global<const C> values(static_cast<const C*>(p.cache.values));
    const simt::Global<const int32_t> table = TableOf(p, simt::BlockY());
    const int64_t kv_head = simt::Global<const int32_t>(p.kv_head_of)[simt::BlockX()];

    float sum[kRows] = {};
    for (int b = range.first_block + warp; b < range.end_block; b += kWarps) {
      const int64_t block = table[b];
      const int64_t base = block * p.cache.value_block_stride + kv_head * (kHeadSize * kBlockSize);
      const int position = b * kBlockSize + first_token;
      const simt::Vec<float, kValueVec> weight = simt::LoadVec<kValueVec>(weights, position - range.origin);
      const bool all_count = position >= range.begin && position + kValueVec <= range.end;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int row = first_row + r * kRowsPerPass;
        if (row >= kHeadSize) break;
        const simt::Vec<C, kValueVec> value = simt::LoadVec<kValueVec>(values, base + row * kBlockSize + first_token);
#pragma unroll
        for (int e = 0; e < kValueVec; ++e) {
          // A weight of 0 does not cancel NaN or infinity in an invisible slot, so such values are skipped.
          const bool counts = all_count || (position + e >= range.begin && position + e < range.end);
          sum[r] += counts ? weight.v[e] * simt::ToFloat(value.v[e]) : 0.0f;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      for (int mask = kVecsPerRow / 2; mask > 0; mask /= 2) sum[r] += simt::ShuffleXor(sum[r], mask);
      const int row = first_row + r * kRowsPerPass;
      if (lane % kVecsPerRow == 0 && row < kHeadSize) sums[warp * kHeadSize + row] = sum[r];
    }
  }
};

/// Combines the partitions of v2. The grid is (num_heads, num_seqs): out = (sum over partitions of exp(max - largest
/// max) * exp_sum * partial) / (the same sum without partial). Invisible partitions were not written and are not read.
template <class T, int kHeadSize>
struct CombinePartitionsKernel {
  using Params = DecodeLaunch;
  static constexpr int kThreads = 128, kWarps = kThreads / 32;

  static int64_t SharedSize(int64_t num_partitions) {
    return simt::SharedBytes(num_partitions * 4) + 2 * simt::SharedBytes(kWarps * 4);
  }

  static __device__ void Run(const DecodeLaunch& p) {
    const int head = static_cast<int>(simt::BlockX()), thread = simt::ThreadX();
    const int64_t seq = simt::BlockY(), part = (seq * p.op.num_heads + head) * p.num_partitions;
    const simt::Global<T> out = simt::Global<T>(static_cast<T*>(p.op.out)) + (seq * p.op.out_stride + head * kHeadSize);
    const simt::Global<const float> max_score(p.max_score), exp_sum(p.exp_sum), partial(p.partial);

    const int context = simt::Global<const int32_t>(p.op.context_len)[seq];
    const int begin = p.op.window > 0 ? simt::Max(context - p.op.window, 0) : 0;
    const int first = begin / p.partition, end = (context + p.partition - 1) / p.partition;

    simt::SharedArena arena;
    const simt::SharedArray<float> factors = arena.template Take<float>(p.num_partitions);
    const simt::SharedArray<float> warp_max = arena.template Take<float>(kWarps);
    const simt::SharedArray<float> warp_sum = arena.template Take<float>(kWarps);

    float max = -FLT_MAX;
    for (int i = first + thread; i < end; i += kThreads) max = simt::Max(max, static_cast<float>(max_score[part + i]));
    max = BlockReduce<kWarps>(max, warp_max, MaxOf{});
    float sum = 0;
    for (int i = first + thread; i < end; i += kThreads) {
      const float factor = simt::Exp(max_score[part + i] - max) * exp_sum[part + i];
      factors[i] = factor;
      sum += factor;
    }
    sum = BlockReduce<kWarps>(sum, warp_sum, SumOf{}) + SinkWeightOf(p.op, simt::BlockX(), max);

    for (int d = thread; d < kHeadSize; d += kThreads) {
      float value = 0;
      for (int i = first; i < end; ++i) value += factors[i] * partial[(part + i) * kHeadSize + d];
      out[d] = simt::FromFloat<T>(context > 0 ? value / sum : 0.0f);
    }
  }
};

}  // namespace quire::kernels
