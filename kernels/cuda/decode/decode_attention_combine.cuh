#pragma once

#include <cfloat>

#include "kernels/cuda/decode/attention_sink.cuh"
#include "kernels/cuda/decode/decode_attention_tiles.cuh"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels {

/// Combines the parts of split contexts, after DecodeAttentionKernel. The grid is (num_ctas): each CTA computes every
/// num_ctas-th row of the list's merges: out = (sum over slots of 2^(max - largest max) * exp_sum * partial) / (the
/// same sum without partial).
template <class T, int kHeadSize>
struct CombineDecodeKernel {
  using Params = DecodeAttentionLaunch;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kLanes = kHeadSize / 4;       // threads per slot row, 4 columns each
  static constexpr int kGroups = kThreads / kLanes;  // thread groups that share the slots

  static int64_t SharedSize(int64_t max_slots) {
    return simt::SharedBytes(max_slots * 4) + 2 * simt::SharedBytes(kWarps * 4) +
           simt::SharedBytes(kGroups * kHeadSize * 4);
  }

  struct Shared {
    simt::SharedArray<float> factors;  // [slots]
    simt::SharedArray<float> warp_max, warp_sum;
    simt::SharedArray<float> groups;  // [kGroups, kHeadSize]
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const simt::SharedArray<float> factors = arena.template Take<float>(p.op.work_size.num_ctas);
    const simt::SharedArray<float> warp_max = arena.template Take<float>(kWarps);
    const simt::SharedArray<float> warp_sum = arena.template Take<float>(kWarps);
    const Shared shared{factors, warp_max, warp_sum, arena.template Take<float>(kGroups * kHeadSize)};
    const simt::Global<const int32_t> work(p.op.work);
    const int rows = work[0] * kDecodeRows;
    for (int i = static_cast<int>(simt::BlockX()); i < rows; i += p.op.work_size.num_ctas) {
      const int64_t at = p.merges_at + i / kDecodeRows * 8;
      const simt::Vec<int32_t, 4> who = simt::LoadVec<4>(work, at);  // seq, first_head, num_heads, first_slot
      const int row = i % kDecodeRows, slots = work[at + 4];
      if (row >= who.v[2]) continue;
      const int64_t first = int64_t{who.v[3]} * kDecodeRows + row;
      const int64_t out = who.v[0] * p.op.out_stride + (who.v[1] + row) * kHeadSize;
      CombineRow(p, shared, first, slots, who.v[1] + row, out);  // its barriers let the next row reuse the memory
    }
  }

  /// Combines one row, whose slot s has index first + s * kDecodeRows.
  static __device__ void CombineRow(const Params& p, const Shared& shared, int64_t first, int slots, int64_t head,
                                    int64_t out) {
    const int thread = simt::ThreadX(), column = thread % kLanes * 4;
    const simt::Global<const float> max_score(p.max_score), exp_sum(p.exp_sum), partial(p.partial);
    float max = -FLT_MAX, sum = 0;
    for (int s = thread; s < slots; s += kThreads) {
      max = simt::Max(max, static_cast<float>(max_score[first + s * kDecodeRows]));
    }
    max = BlockReduce<kWarps>(max, shared.warp_max, MaxOf{});
    for (int s = thread; s < slots; s += kThreads) {
      const float factor = simt::Exp2(max_score[first + s * kDecodeRows] - max) * exp_sum[first + s * kDecodeRows];
      shared.factors[s] = factor;
      sum += factor;
    }
    sum = BlockReduce<kWarps>(sum, shared.warp_sum, SumOf{}) + SinkWeight(p.op.sinks, head, max);

    if (thread < kGroups * kLanes) {
      simt::Vec<float, 4> value{};
      for (int s = thread / kLanes; s < slots; s += kGroups) {
        const float factor = shared.factors[s];
        const simt::Vec<float, 4> part = simt::LoadVec<4>(partial, (first + s * kDecodeRows) * kHeadSize + column);
#pragma unroll
        for (int e = 0; e < 4; ++e) value.v[e] += factor * part.v[e];
      }
      simt::StoreVec(shared.groups, thread / kLanes * kHeadSize + column, value);
    }
    simt::SyncThreads();
    for (int d = thread; d < kHeadSize; d += kThreads) {
      float value = 0;
      for (int g = 0; g < kGroups; ++g) value += shared.groups[g * kHeadSize + d];
      simt::Global<T>(static_cast<T*>(p.op.out))[out + d] = simt::FromFloat<T>(value / sum);
    }
  }
};

}  // namespace quire::kernels
