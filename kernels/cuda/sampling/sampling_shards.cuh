#pragma once

#include "kernels/cuda/sampling/sampling_rows.cuh"
#include "kernels/cuda/sampling/sampling_shards.h"

namespace quire::kernels {

/// A rank's summary of one view row.
struct ShardHeader {
  float max;       // largest logit of the shard; -infinity: the shard is empty
  float best_raw;  // raw logit of `best`
  int32_t best;    // first token with the maximum; -1: the shard is empty
  int32_t count;   // number of candidates
  Place floor;     // every token up to `floor` whose weight is not 0 is a candidate
  Mass mass;       // total mass of the shard, relative to max; unused for rows with top-k or min-p
};
struct ShardCandidate {
  float logit, raw;
  int32_t id;
};
/// One rank's part: headers [2 * num_rows], then candidates [2 * num_rows, num_candidates] in any order.
struct ShardPart {
  const void* base;
  int64_t num_rows;
  int num_candidates;

  static constexpr __host__ __device__ int64_t RowBytes(int num_candidates) {
    return static_cast<int64_t>(sizeof(ShardHeader)) + num_candidates * static_cast<int64_t>(sizeof(ShardCandidate));
  }
  __device__ ShardHeader* header(int64_t v) const { return static_cast<ShardHeader*>(const_cast<void*>(base)) + v; }
  __device__ ShardCandidate* candidates(int64_t v) const {
    void* after_headers = header(2 * num_rows);
    return static_cast<ShardCandidate*>(after_headers) + v * num_candidates;
  }
  __device__ ShardPart part(int shard) const {
    const int64_t bytes = 2 * num_rows * RowBytes(num_candidates);
    return {static_cast<const char*>(base) + shard * bytes, num_rows, num_candidates};
  }
};

/// The kernel of SummarizeShard: one thread block per view row.
struct SummarizeShardKernel {
  struct Params {
    SamplingOp op;
    ShardPart part;
  };
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = ListMemory::kBytes;

  /// Writes the num_candidates best tokens of the source, which has all tokens up to `last` in the order of Place.
  /// Returns the place up to which the list lacks no token; key 0 means that it lacks no token whose weight is not 0.
  template <class Source>
  static __device__ Place Write(const Params& p, const Source& source, const SelectScratch& scratch, int64_t v,
                                Place last, int32_t& written) {
    const Mass limit = static_cast<Mass>(p.part.num_candidates);
    Mass count = Sum(source, scratch,
                     [&](float logit, int32_t id) { return Mass{last.Holds(OrderedBits(logit), id) ? 1u : 0u}; });
    if (count > limit) {
      last = KeepBest(source, scratch, last, limit);
      count = limit;
    } else if (last.key <= LowestKey()) {
      last.key = 0;
    }
    if (simt::ThreadX() == 0) scratch.low[0] = 0u;
    simt::SyncThreads();
    const simt::Global<ShardCandidate> out(p.part.candidates(v));
    const simt::Global<const float> raw(p.op.in.logits + v / 2 * p.op.in.row_stride);
    source.ForEach([&](float logit, int32_t id) {
      if (!last.Holds(OrderedBits(logit), id)) return;
      const uint32_t at = simt::AtomicAdd(scratch.low, 0, 1u);
      out[at] = ShardCandidate{logit, Clean(raw[id - p.op.in.first_id]), id};
    });
    written = static_cast<int32_t>(count);
    return last;
  }

  static __device__ void Run(const Params& p) {
    const SamplingOp& op = p.op;
    const int64_t v = simt::BlockX(), view = v % 2;
    const DeviceSampling s = RowSampling(op, v / 2);
    if (!IsActive(s, view)) return;
    const simt::Global<ShardHeader> out(p.part.header(v));
    if (op.in.vocab == 0) {  // an empty shard has no state, and its list lacks nothing
      if (simt::ThreadX() == 0) out[0] = ShardHeader{-kInfinity, -kInfinity, -1, 0, {0, kAnyId}, 0};
      return;
    }
    const RowState state = simt::Global<const RowState>(op.work.state)[v];
    simt::SharedArena arena;
    const ListMemory memory = ListMemory::Take(arena);
    const float best_raw =
        Clean(simt::Global<const float>(op.in.logits)[v / 2 * op.in.row_stride + state.best - op.in.first_id]);
    ShardHeader header{state.max, best_raw, state.best, 0, {0xffffffffu, -1}, 0};
    if (NeedsMass(s, view)) header.mass = RowMass(op, v);
    if (NeedsList(op, s, view) && p.part.num_candidates > 0) {
      ListSource list{memory.logits, memory.ids, 0, {}};
      if (LoadList(op, v, memory, list)) {
        header.floor = Write(p, list, memory.scratch, v, {state.floor_key, kAnyId}, header.count);
      } else {
        const Place all{view == 0 ? LowestKey() : 0, kAnyId};
        header.floor = Write(p, ViewOf(op, s, v), memory.scratch, v, all, header.count);
      }
    }
    if (simt::ThreadX() == 0) out[0] = header;
  }
};

/// The kernel of DrawInShard: one thread block per row.
struct DrawInShardKernel {
  struct Params {
    SamplingOp op;
    const ShardDraw* draws;
    int shard;
    ShardToken* tokens;
  };
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = SelectScratch::kBytes;

  static __device__ void Run(const Params& p) {
    const int64_t row = simt::BlockX();
    const DeviceSampling s = RowSampling(p.op, row);
    ShardToken token{-1, 0};
    if (s.draws != 0) {
      const ShardDraw draw = simt::Global<const ShardDraw>(p.draws)[row];
      if (draw.state == DrawState::kInShard && draw.shard == p.shard) {
        simt::SharedArena arena;
        const SelectScratch scratch = SelectScratch::Take(arena);
        const RowState state = simt::Global<const RowState>(p.op.work.state)[2 * row];
        const Soften soften = SoftenOf(s, 0, state.max);
        token.token =
            WalkPieces(p.op, 2 * row, ViewOf(p.op, s, 2 * row), scratch, soften, {0, kAnyId}, Mass{draw.target});
        token.raw = Clean(ViewOf(p.op, s, 2 * row + 1).row[token.token - p.op.in.first_id]);
      }
    }
    if (simt::ThreadX() == 0) simt::Global<ShardToken>(p.tokens)[row] = token;
  }
};

/// The kernel of PackRows. The grid is (rows to pack, tiles).
struct PackRowsKernel {
  struct Params {
    SamplingOp op;
    PackRowsParams pack;
  };
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kTile = 2048;

  static __device__ void Run(const Params& p) {
    const int64_t at = simt::BlockX(), vocab = p.op.in.vocab;
    const int64_t row = simt::Global<const int32_t>(p.pack.row_ids)[at];
    const DeviceSampling s = RowSampling(p.op, row);
    const RowSource edited = ViewOf(p.op, s, 2 * row), raw = ViewOf(p.op, s, 2 * row + 1);
    const simt::Global<float> edited_out(p.pack.edited + at * vocab), raw_out(p.pack.raw + at * vocab);
    const int64_t end = simt::Min(vocab, (simt::BlockY() + 1) * kTile);
    for (int64_t i = simt::BlockY() * kTile + simt::ThreadX(); i < end; i += kThreads) {
      edited_out[i] = static_cast<float>(edited.row[i]);
      raw_out[i] = static_cast<float>(raw.row[i]);
    }
  }
};

}  // namespace quire::kernels
