#pragma once

#include "kernels/cuda/sampling/sampling_shards.cuh"

namespace quire::kernels {

/// The kernel of DrawFromParts: one thread block per row.
struct DrawFromPartsKernel {
  using Params = DrawFromPartsParams;
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = ListMemory::kBytes + simt::SharedBytes(kListSize * 4);

  /// One view of a row (edited or raw logits), combined from the headers of all shards.
  struct Whole {
    float max;
    int32_t best;
    float best_raw;
    Place floor;  // the earliest of the shards' floors
  };
  static __device__ ShardHeader HeaderOf(const ShardPart& parts, int shard, int64_t v) {
    return simt::Global<ShardHeader>(parts.part(shard).header(v))[0];
  }
  /// Returns a shard's mass relative to the maximum over all shards; 0 if the shard's own maximum is not finite.
  static __device__ Mass Rescaled(const ShardHeader& header, const Soften& soften) {
    if (!IsFinite(header.max)) return 0;
    return static_cast<Mass>(static_cast<double>(header.mass) * static_cast<double>(soften.Share(header.max)));
  }
  static __device__ Mass TotalMass(const Params& p, const ShardPart& parts, int64_t v, const Soften& soften) {
    Mass sum = 0;
    for (int shard = 0; shard < p.num_shards; ++shard) sum += Rescaled(HeaderOf(parts, shard, v), soften);
    return sum;
  }
  static __device__ Whole Join(const Params& p, const ShardPart& parts, int64_t v) {
    Whole whole{-kInfinity, -1, -kInfinity, {0, kAnyId}};
    for (int shard = 0; shard < p.num_shards; ++shard) {
      const ShardHeader header = HeaderOf(parts, shard, v);
      if (whole.best < 0 || header.max > whole.max) {
        whole.max = header.max, whole.best = header.best, whole.best_raw = header.best_raw;
      }
      if (whole.floor.Holds(header.floor.key, header.floor.id)) whole.floor = header.floor;
    }
    return whole;
  }

  static __device__ Bounds BoundsOf(const Whole& whole) {
    const uint32_t top = OrderedBits(whole.max);
    return {top, top - simt::Min(top, whole.floor.key), 0, kMaxVocab - 1};
  }

  /// Loads the candidates down to the floor; no token above the floor can be missing. Returns their number.
  static __device__ int Load(const Params& p, const ShardPart& parts, int64_t v, const Place& floor,
                             const ListMemory& memory, const simt::SharedArray<float>& raws) {
    if (simt::ThreadX() == 0) memory.scratch.low[0] = 0u;
    simt::SyncThreads();
    for (int shard = 0; shard < p.num_shards; ++shard) {
      const int count = HeaderOf(parts, shard, v).count;
      const simt::Global<ShardCandidate> candidates(parts.part(shard).candidates(v));
      for (int i = simt::ThreadX(); i < count; i += kThreads) {
        const ShardCandidate c = candidates[i];
        if (!floor.Holds(OrderedBits(c.logit), c.id)) continue;
        const uint32_t at = simt::AtomicAdd(memory.scratch.low, 0, 1u);
        memory.logits[at] = c.logit, memory.ids[at] = c.id, raws[at] = c.raw;
      }
    }
    simt::SyncThreads();
    const uint32_t loaded = memory.scratch.low[0];
    simt::SyncThreads();
    return static_cast<int>(loaded);
  }

  /// Finds the shard that has the sampled token, and the mass before the token in that shard.
  static __device__ void DrawShard(const Params& p, const ShardPart& parts, int64_t v, const Soften& soften,
                                   Mass target, ShardDraw& draw) {
    for (int shard = 0; shard < p.num_shards; ++shard) {
      const ShardHeader header = HeaderOf(parts, shard, v);
      const Mass mass = Rescaled(header, soften);
      if (target >= mass) {
        target -= mass;
        continue;
      }
      const double own = static_cast<double>(target) * (static_cast<double>(header.mass) / static_cast<double>(mass));
      draw.state = DrawState::kInShard;
      draw.shard = shard;
      draw.target = simt::Min(static_cast<Mass>(own), header.mass - 1);
      return;
    }
  }

  /// Samples the token and its raw logit, or marks the row for a later stage.
  static __device__ void Draw(const Params& p, const ShardPart& parts, const DeviceSampling& s, int64_t v,
                              const ListMemory& memory, const simt::SharedArray<float>& raws, Whole& whole,
                              ShardDraw& draw) {
    const SelectScratch& scratch = memory.scratch;
    const Soften soften = SoftenOf(s, 0, whole.max);
    const uint32_t min_key = MinPKey(s, whole.max);
    const Mass row_mass = s.top_k <= 0 && s.min_p <= 0 ? TotalMass(p, parts, v, soften) : 0;
    const bool complete = whole.floor.Holds(simt::Max(min_key, LowestKey()), kAnyId);
    if (s.top_k <= 0 && s.top_p >= 1 && s.min_p <= 0) {
      return DrawShard(p, parts, v, soften, DrawnMass(s, row_mass), draw);
    }
    const ListSource list{memory.logits, memory.ids, Load(p, parts, v, whole.floor, memory, raws), BoundsOf(whole)};
    const Choice choice = Restrict(list, scratch, soften, s, min_key, complete, row_mass);
    if (!choice.decided) {
      draw.state = DrawState::kWholeRow;
      return;
    }
    whole.best = TokenAt(list, scratch, soften, choice.last, DrawnMass(s, choice.mass));
    for (int i = simt::ThreadX(); i < list.count; i += kThreads) {
      if (memory.ids[i] == whole.best) {
        const uint32_t column = static_cast<uint32_t>(i);
        scratch.low[1] = column;
      }
    }
    simt::SyncThreads();
    const uint32_t at = scratch.low[1];
    whole.best_raw = raws[at];
    simt::SyncThreads();
  }

  static __device__ void Report(const Params& p, const ShardPart& parts, const DeviceSampling& s, int64_t v,
                                const ListMemory& memory, const simt::SharedArray<float>& raws, DrawnToken* drawn,
                                ShardDraw& draw) {
    const Whole whole = Join(p, parts, v);
    const Mass mass = TotalMass(p, parts, v, SoftenOf(s, 1, whole.max));
    draw.log_sum_exp = whole.max + simt::Log(static_cast<double>(mass) * 0x1p-44);
    int count = 0;
    if (s.num_logprobs > 0) {
      const ListSource list{memory.logits, memory.ids, Load(p, parts, v, whole.floor, memory, raws), BoundsOf(whole)};
      count = simt::Min(s.num_logprobs, list.count);
      if (count < s.num_logprobs && whole.floor.key > 0) draw.state = DrawState::kWholeRow;
      WriteTop(list, memory.scratch, count, list.count, draw.log_sum_exp, memory.top_logits, memory.top_ids, drawn);
    }
    if (simt::ThreadX() == 0) simt::Global<int32_t>(&drawn->num_top)[0] = count;
  }

  static __device__ void Run(const Params& p) {
    const int64_t row = simt::BlockX();
    const DeviceSampling s = simt::Global<const DeviceSampling>(p.rows)[row];
    if (s.draws == 0) return;
    simt::SharedArena arena;
    const ListMemory memory = ListMemory::Take(arena);
    const simt::SharedArray<float> raws = arena.template Take<float>(kListSize);
    const ShardPart parts{p.parts, p.num_rows, p.num_candidates};
    Whole whole = Join(p, parts, 2 * row);
    ShardDraw draw{DrawState::kDone, 0, 0, 0};
    if (!IsGreedy(s) && IsFinite(whole.max)) Draw(p, parts, s, 2 * row, memory, raws, whole, draw);
    DrawnToken* drawn = p.drawn + row;
    if (s.num_logprobs >= 0) Report(p, parts, s, 2 * row + 1, memory, raws, drawn, draw);
    if (simt::ThreadX() != 0) return;
    simt::Global<ShardDraw>(p.draws)[row] = draw;
    simt::Global<int32_t>(&drawn->token)[0] = whole.best;
    const float logprob = s.num_logprobs < 0 ? 0.0f : static_cast<float>(whole.best_raw - draw.log_sum_exp);
    simt::Global<float>(&drawn->logprob)[0] = IsFinite(whole.max) ? logprob : kNotANumber;
  }
};

/// The kernel of MergeShardDraws: one thread per row.
struct MergeShardDrawsKernel {
  struct Params {
    DrawFromPartsParams draw;
    const ShardToken* tokens;
  };
  static constexpr int kThreads = 128;

  static __device__ void Run(const Params& p) {
    const int64_t row = simt::BlockX() * kThreads + simt::ThreadX();
    if (row >= p.draw.num_rows) return;
    const DeviceSampling s = simt::Global<const DeviceSampling>(p.draw.rows)[row];
    if (s.draws == 0) return;
    const ShardDraw draw = simt::Global<const ShardDraw>(p.draw.draws)[row];
    if (draw.state != DrawState::kInShard) return;
    const ShardToken token = simt::Global<const ShardToken>(p.tokens)[draw.shard * p.draw.num_rows + row];
    DrawnToken* drawn = p.draw.drawn + row;
    simt::Global<int32_t>(&drawn->token)[0] = token.token;
    if (s.num_logprobs < 0) return;
    simt::Global<float>(&drawn->logprob)[0] = static_cast<float>(token.raw - draw.log_sum_exp);
  }
};

}  // namespace quire::kernels
