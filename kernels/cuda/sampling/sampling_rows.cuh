#pragma once

#include "kernels/cuda/sampling/sampling.cuh"

namespace quire::kernels {

/// The list of one view in shared memory, with scratch memory for the selection.
struct ListMemory {
  SelectScratch scratch;
  simt::SharedArray<float> logits;      // [kListSize]
  simt::SharedArray<int32_t> ids;       // [kListSize]
  simt::SharedArray<float> top_logits;  // [kMaxTopLogprobs]
  simt::SharedArray<int32_t> top_ids;   // [kMaxTopLogprobs]

  static constexpr int64_t kBytes =
      SelectScratch::kBytes + 2 * simt::SharedBytes(kListSize * 4) + 2 * simt::SharedBytes(kMaxTopLogprobs * 4);
  static __device__ ListMemory Take(simt::SharedArena& arena) {
    const SelectScratch scratch = SelectScratch::Take(arena);
    const simt::SharedArray<float> logits = arena.template Take<float>(kListSize);
    const simt::SharedArray<int32_t> ids = arena.template Take<int32_t>(kListSize);
    const simt::SharedArray<float> top_logits = arena.template Take<float>(kMaxTopLogprobs);
    return {scratch, logits, ids, top_logits, arena.template Take<int32_t>(kMaxTopLogprobs)};
  }
};

/// True if the view has a valid list; `source` is then that list. Each thread loads the entries that it will visit.
__device__ inline bool LoadList(const SamplingOp& op, int64_t v, const ListMemory& memory, ListSource& source) {
  const RowState state = simt::Global<const RowState>(op.work.state)[v];
  const uint32_t top = OrderedBits(state.max);
  source.bounds = {top, top - state.floor_key, op.in.first_id, static_cast<uint32_t>(op.in.vocab - 1)};
  source.count = simt::Global<const int32_t>(op.work.num_listed)[v];
  if (source.count > kListSize) return false;
  const simt::Global<const float> logits(op.work.list_logits + v * kListSize);
  const simt::Global<const int32_t> ids(op.work.list_ids + v * kListSize);
  for (int i = simt::ThreadX(); i < source.count; i += kSelectThreads) {
    memory.logits[i] = static_cast<float>(logits[i]), memory.ids[i] = static_cast<int32_t>(ids[i]);
  }
  return true;
}

__device__ inline Mass RowMass(const SamplingOp& op, int64_t v) {
  const simt::Global<const Mass> pieces(op.work.piece_mass + v * op.pieces);
  Mass sum = 0;
  for (int64_t i = 0; i < op.pieces; ++i) sum += pieces[i];
  return sum;
}
/// Returns the token that WalkRow finds; its walk begins at the piece that contains the target.
__device__ inline int32_t WalkPieces(const SamplingOp& op, int64_t v, const RowSource& row,
                                     const SelectScratch& scratch, const Soften& soften, const Place& last,
                                     Mass target) {
  const simt::Global<const Mass> pieces(op.work.piece_mass + v * op.pieces);
  int64_t piece = 0;
  for (Mass mass = pieces[0]; target >= mass; mass = pieces[++piece]) target -= mass;
  return WalkRow(row, scratch, soften, last, piece * kPiece, target);
}

/// The kernel that samples a token for each row and reports log-probabilities: one thread block per row.
struct DrawRowsKernel {
  struct Params {
    SamplingOp op;
    DrawnToken* drawn;
  };
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = ListMemory::kBytes;

  static __device__ int32_t Draw(const SamplingOp& op, const DeviceSampling& s, int64_t v, const RowState& state,
                                 const ListMemory& memory) {
    const RowSource row = ViewOf(op, s, v);
    const Soften soften = SoftenOf(s, 0, state.max);
    const SelectScratch& scratch = memory.scratch;
    const Mass row_mass = NeedsMass(s, 0) ? RowMass(op, v) : 0;
    if (s.top_k <= 0 && s.top_p >= 1) {
      return WalkPieces(op, v, row, scratch, soften, {state.min_key, kAnyId}, DrawnMass(s, row_mass));
    }
    ListSource list{memory.logits, memory.ids, 0, {}};
    if (LoadList(op, v, memory, list)) {
      const bool complete = state.floor_key <= simt::Max(state.min_key, LowestKey());
      const Choice choice = Restrict(list, scratch, soften, s, state.min_key, complete, row_mass);
      if (choice.decided) return TokenAt(list, scratch, soften, choice.last, DrawnMass(s, choice.mass));
    }
    const Choice choice = Restrict(row, scratch, soften, s, state.min_key, true, row_mass);
    return WalkRow(row, scratch, soften, choice.last, 0, DrawnMass(s, choice.mass));
  }

  static __device__ void Report(const SamplingOp& op, const DeviceSampling& s, int64_t v, int32_t token,
                                const ListMemory& memory, DrawnToken* drawn) {
    const RowState state = simt::Global<const RowState>(op.work.state)[v];
    const double log_sum_exp = state.max + simt::Log(static_cast<double>(RowMass(op, v)) * 0x1p-44);
    const RowSource row = ViewOf(op, s, v);
    const int count = static_cast<int>(simt::Min(static_cast<int64_t>(s.num_logprobs), op.in.vocab));
    if (simt::ThreadX() == 0) {
      const float raw = Clean(row.row[token - row.bounds.first_id]);
      simt::Global<float>(&drawn->logprob)[0] = static_cast<float>(raw - log_sum_exp);
      simt::Global<int32_t>(&drawn->num_top)[0] = count;
    }
    if (count == 0) return;
    ListSource list{memory.logits, memory.ids, 0, {}};
    if (LoadList(op, v, memory, list) && list.count >= count) {
      WriteTop(list, memory.scratch, count, list.count, log_sum_exp, memory.top_logits, memory.top_ids, drawn);
    } else {
      WriteTop(row, memory.scratch, count, static_cast<int>(row.count), log_sum_exp, memory.top_logits, memory.top_ids,
               drawn);
    }
  }

  static __device__ void Run(const Params& p) {
    const int64_t row = simt::BlockX();
    const DeviceSampling s = RowSampling(p.op, row);
    if (s.draws == 0) return;
    simt::SharedArena arena;
    const ListMemory memory = ListMemory::Take(arena);
    const RowState state = simt::Global<const RowState>(p.op.work.state)[2 * row];
    int32_t token = state.best;
    if (!IsGreedy(s) && IsFinite(state.max)) token = Draw(p.op, s, 2 * row, state, memory);
    DrawnToken* drawn = p.drawn + row;
    if (simt::ThreadX() == 0) simt::Global<int32_t>(&drawn->token)[0] = token;
    if (s.num_logprobs >= 0) Report(p.op, s, 2 * row + 1, token, memory, drawn);
    if (simt::ThreadX() != 0) return;
    if (s.num_logprobs < 0 || !IsFinite(state.max))
      simt::Global<float>(&drawn->logprob)[0] = IsFinite(state.max) ? 0.0f : kNotANumber;
  }
};

}  // namespace quire::kernels
