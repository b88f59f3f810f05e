#pragma once

#include "kernels/cuda/decode/attention_sink.cuh"
#include "kernels/cuda/prefill/prefill_attention_tiles.cuh"

namespace quire::kernels {

/// Returns the index in the workspace of a row's partial result for one part of the positions: head_size sums of
/// weighted values, the largest score (base-2 exponent), and the sum of weights relative to it.
__device__ inline int64_t PrefillPartAt(const PrefillLaunch& p, const PrefillWork& work, int slot, int row,
                                        int tile_rows, int head_size) {
  const int64_t tile = int64_t{slot} * p.op.cache.num_kv_heads + work.kv_head;
  return (tile * tile_rows + row) * (head_size + PrefillSplit::kRowExtra);
}

/// Stores a lane's share of a partial result: columns lane % 4 * 2 and the next of every 8, as an mma leaves them for
/// its upper or lower 8 rows (`half`).
template <int kUnits>
__device__ void StorePrefillPart(const PrefillLaunch& p, int64_t at, int half, const float (&out)[kUnits][4], float max,
                                 float sum) {
  const simt::Global<float> parts(p.op.workspace);
  const int quarter = simt::ThreadX() % 4;
#pragma unroll
  for (int n = 0; n < kUnits; ++n) {
    simt::StoreVec<2>(parts, at + n * 8 + quarter * 2, simt::Vec<float, 2>{out[n][half * 2], out[n][half * 2 + 1]});
  }
  if (quarter == 0) simt::StoreVec<2>(parts, at + kUnits * 8, simt::Vec<float, 2>{max, sum});
}

/// Combines the parts of split tiles. The grid is (num_merges * num_kv_heads * kBlocks); each thread block computes
/// kRowsOfBlock rows of a KV head's tile: out = (sum over slots of 2^(largest score - largest of all) * sums) / (the
/// same sum of weights). kRows: rows of a tile.
template <class T, int kHeadSize, int kRows>
struct CombinePrefillKernel {
  using Params = PrefillLaunch;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 128, kRowsOfBlock = 16, kBlocks = kRows / kRowsOfBlock;
  static constexpr int kLanes = kHeadSize / 4;         // threads per row, 4 columns each
  static constexpr int kTogether = kThreads / kLanes;  // rows at a time

  static __device__ void Run(const PrefillLaunch& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int kv_heads = p.op.cache.num_kv_heads;
    const int tile = static_cast<int>(simt::BlockX() / kBlocks);
    const PrefillMerge merge = simt::Global<const PrefillMerge>(p.op.merges)[tile / kv_heads];
    PrefillTile whole;
    whole.sequence = merge.sequence;
    whole.first_row = merge.first_row;
    const PrefillWork work = ReadPrefillWork(p, whole, tile % kv_heads, kRows);
    const int together = simt::ThreadX() / kLanes;
    if (together >= kTogether) return;
    const int first = static_cast<int>(simt::BlockX() % kBlocks) * kRowsOfBlock;
    const int end = simt::Min(first + kRowsOfBlock, work.num_rows);
    for (int row = first + together; row < end; row += kTogether) CombineRow(p, work, merge, row);
  }

  static __device__ void CombineRow(const PrefillLaunch& p, const PrefillWork& work, const PrefillMerge& merge,
                                    int row) {
    const int column = simt::ThreadX() % kLanes * 4;
    const simt::Global<const float> parts(p.op.workspace);
    const auto at = [&](int s) { return PrefillPartAt(p, work, merge.first_slot + s, row, kRows, kHeadSize); };
    float max = -INFINITY;
    for (int s = 0; s < merge.num_slots; ++s) {
      const float largest = parts[at(s) + kHeadSize];
      max = simt::Max(max, largest);
    }
    float sum = SinkWeight(p.op.sinks, work.Head(row), max);
    simt::Vec<float, 4> value{};
    for (int s = 0; s < merge.num_slots; ++s) {
      const simt::Vec<float, 2> known = simt::LoadVec<2>(parts, at(s) + kHeadSize);
      const simt::Vec<float, 4> part = simt::LoadVec<4>(parts, at(s) + column);
      const float factor = simt::Exp2(known.v[0] - max);
      sum += factor * known.v[1];
#pragma unroll
      for (int e = 0; e < 4; ++e) value.v[e] += factor * part.v[e];
    }
    const float factor = p.op.cache.v_scale / sum;
    simt::Vec<T, 4> rounded;
#pragma unroll
    for (int e = 0; e < 4; ++e) rounded.v[e] = simt::FromFloat<T>(value.v[e] * factor);
    const int64_t out = (work.first_query + work.Query(row)) * p.op.out_stride + work.Head(row) * kHeadSize;
    simt::StoreVec<4>(simt::Global<T>(static_cast<T*>(p.op.out)), out + column, rounded);
  }
};

}  // namespace quire::kernels
