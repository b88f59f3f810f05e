#pragma once

#include "kernels/cuda/sampling/sampling_draw.cuh"

// The passes over the rows. Every row has two views: tokens are sampled from view 0 (the edited logits), and
// log-probabilities are reported from view 1 (the raw logits).
namespace quire::kernels {

constexpr int kEach = 32;                                    // columns of a thread's group, kSelectThreads apart
constexpr int64_t kPiece = int64_t{kSelectThreads} * kEach;  // columns per thread block
constexpr int kListSize = 4096;
/// Groups of columns are ordered by their best tokens. A row's list has every token that min-p leaves, down to the best
/// token of group number kListedGroups in this order (or three quarters of all groups, if that is less). The list is
/// longer if several good tokens are in one group.
constexpr int64_t kListedGroups = 1024;

/// The arrays in the workspace. View `view` of a row has the index 2 * row + view.
struct SamplingWorkspace {
  float* edited;           // [rows, vocab]
  float* group_max;        // [view rows, pieces, kSelectThreads]
  Mass* piece_best;        // [view rows, pieces]: key, then the complement of the id; 0: no token
  Mass* piece_mass;        // [view rows, pieces]: mass of tokens from min_key on
  struct RowState* state;  // [view rows]
  int32_t* num_listed;     // [view rows]; above kListSize the list is invalid
  float* list_logits;      // [view rows, kListSize]
  int32_t* list_ids;       // [view rows, kListSize]
};
struct RowState {
  float max;           // -infinity: an empty row
  int32_t best;        // the first token with the logit `max`
  uint32_t floor_key;  // the list has all tokens from this key on
  uint32_t min_key;    // lowest key that min-p leaves in this shard; not above the key for the whole row
};
struct SamplingOp {
  SamplingRows in;
  SamplingWorkspace work;
  int64_t pieces;
  bool sharded;
};

/// Returns the key of the lowest finite logit. Only -infinity is lower; its weight is zero.
__device__ inline uint32_t LowestKey() { return OrderedBits(-kInfinity) + 1; }

__device__ inline DeviceSampling RowSampling(const SamplingOp& op, int64_t row) {
  return simt::Global<const DeviceSampling>(op.in.rows)[row];
}
__device__ inline bool IsEdited(const DeviceSampling& s) {
  return s.bias_end > s.bias_begin || s.ban_end > s.ban_begin || s.count_slot >= 0;
}
__device__ inline bool IsActive(const DeviceSampling& s, int64_t view) {
  return s.draws != 0 && (view == 0 || s.num_logprobs >= 0);
}
__device__ inline bool NeedsList(const SamplingOp& op, const DeviceSampling& s, int64_t view) {
  if (view == 1) return s.num_logprobs > 0;
  return !IsGreedy(s) && (s.top_k > 0 || s.top_p < 1 || (op.sharded && s.min_p > 0));
}
__device__ inline bool NeedsMass(const DeviceSampling& s, int64_t view) {
  return view == 1 || (!IsGreedy(s) && s.top_k <= 0);
}
__device__ inline RowSource ViewOf(const SamplingOp& op, const DeviceSampling& s, int64_t view_row) {
  const int64_t row = view_row / 2;
  const float* from = op.in.logits + row * op.in.row_stride;
  if (view_row % 2 == 0 && op.in.edited != nullptr) from = op.in.edited + row * op.in.vocab;
  if (view_row % 2 == 0 && op.in.edited == nullptr && IsEdited(s)) from = op.work.edited + row * op.in.vocab;
  return {from, op.in.vocab, {0xffffffffu, 0xffffffffu, op.in.first_id, static_cast<uint32_t>(op.in.vocab - 1)}};
}
__device__ inline Soften SoftenOf(const DeviceSampling& s, int64_t view, float max) {
  return {max, view == 1 ? 1.0f : 1.0f / s.temperature};
}

/// Writes the edited row, if biases, bans or penalties change the row. The grid is (rows, tiles of kTile columns).
struct EditRowsKernel {
  using Params = SamplingOp;
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kTile = 2048, kSharedSize = simt::SharedBytes(kTile * 4);

  static __device__ float Penalize(const DeviceSampling& s, float logit, uint32_t entry) {
    if (entry == 0) return logit;
    const uint32_t count = entry & 0x7fffu;
    logit = logit > 0 ? logit / s.repetition : logit * s.repetition;
    return count > 0 ? logit - (s.frequency * static_cast<float>(count) + s.presence) : logit;
  }

  static __device__ void Run(const SamplingOp& op) {
    const int64_t row = simt::BlockX(), begin = simt::BlockY() * kTile;
    const DeviceSampling s = RowSampling(op, row);
    if (s.draws == 0 || !IsEdited(s)) return;
    const int64_t count = simt::Min(kTile, op.in.vocab - begin), first_id = op.in.first_id + begin;
    simt::SharedArena arena;
    const simt::SharedArray<float> tile = arena.template Take<float>(kTile);
    const simt::Global<const float> raw(op.in.logits + row * op.in.row_stride + begin);
    for (int64_t i = simt::ThreadX(); i < count; i += kThreads) tile[i] = Clean(raw[i]);
    simt::SyncThreads();
    for (int32_t entry = s.bias_begin + simt::ThreadX(); entry < s.bias_end; entry += kThreads) {
      const int64_t i = simt::Global<const int32_t>(op.in.bias_token)[entry] - first_id;
      if (i >= 0 && i < count) tile[i] += simt::Global<const float>(op.in.bias)[entry];
    }
    simt::SyncThreads();
    for (int32_t entry = s.ban_begin + simt::ThreadX(); entry < s.ban_end; entry += kThreads) {
      const int64_t i = simt::Global<const int32_t>(op.in.banned)[entry] - first_id;
      if (i >= 0 && i < count) tile[i] = -kInfinity;
    }
    simt::SyncThreads();
    const simt::Global<float> out(op.work.edited + row * op.in.vocab + begin);
    for (int64_t i = simt::ThreadX(); i < count; i += kThreads) {
      float logit = tile[i];
      if (s.count_slot >= 0) {
        const uint16_t seen = simt::Global<const uint16_t>(op.in.counts)[s.count_slot * op.in.count_stride + begin + i];
        logit = Penalize(s, logit, seen);
      }
      out[i] = logit;
    }
  }
};

/// Finds the best token of every group and of the piece. The grid is (view rows, pieces).
struct ScanRowsKernel {
  using Params = SamplingOp;
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kThreads * 8);

  static __device__ void Run(const SamplingOp& op) {
    const int64_t v = simt::BlockX(), piece = simt::BlockY();
    const DeviceSampling s = RowSampling(op, v / 2);
    if (!IsActive(s, v % 2)) return;
    const RowSource source = ViewOf(op, s, v);
    const int64_t first = piece * kPiece + simt::ThreadX();
    float max = -kInfinity;
    Mass best = 0;
    for (int e = 0; e < kEach; e += RowSource::kLoads) {
      source.ForLoads(first + int64_t{e} * kThreads, [&](float logit, int32_t id) {
        if (best != 0 && logit <= max) return;
        max = logit;
        best = Mass{OrderedBits(logit)} << 32 | ~static_cast<uint32_t>(id);
      });
    }
    if (NeedsList(op, s, v % 2)) {
      simt::Global<float>(op.work.group_max)[(v * op.pieces + piece) * kThreads + simt::ThreadX()] = max;
    }
    simt::SharedArena arena;
    const simt::SharedArray<Mass> bests = arena.template Take<Mass>(kThreads);
    bests[simt::ThreadX()] = best;
    simt::SyncThreads();
    if (simt::ThreadX() >= 32) return;
    for (int i = simt::ThreadX() + 32; i < kThreads; i += 32) best = simt::Max(best, static_cast<Mass>(bests[i]));
    for (int mask = 16; mask > 0; mask /= 2) best = simt::Max(best, LaneMass(best, simt::ThreadX() ^ mask));
    if (simt::ThreadX() == 0) simt::Global<Mass>(op.work.piece_best)[v * op.pieces + piece] = best;
  }
};

/// Finds a row's maximum, and the lowest key of the tokens to list. The grid has one thread block per view row.
struct FilterRowsKernel {
  using Params = SamplingOp;
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = SelectScratch::kBytes;

  /// Returns the key of the best token of group number kListedGroups (at most three quarters of all groups), in the
  /// order of groups by best token. The key's low 16 bits are cleared.
  static __device__ uint32_t FloorKey(const SamplingOp& op, int64_t v, const SelectScratch& scratch) {
    const int64_t groups = op.pieces * kThreads;
    const RowSource best{op.work.group_max + v * groups, groups, {}};
    const Mass target = static_cast<Mass>(simt::Min(kListedGroups, groups - groups / 4)) - 1;
    const Found found = Descend(
        best, scratch, 0xffff, target, [](float logit, int32_t) { return ~OrderedBits(logit) >> 16; },
        [](float, int32_t) { return Mass{1}; });
    return ~(found.rank << 16 | 0xffffu);
  }

  static __device__ void Run(const SamplingOp& op) {
    const int64_t v = simt::BlockX(), view = v % 2;
    const DeviceSampling s = RowSampling(op, v / 2);
    if (!IsActive(s, view)) return;
    Mass best = 0;
    const simt::Global<const Mass> piece_best(op.work.piece_best + v * op.pieces);
    for (int64_t i = 0; i < op.pieces; ++i) best = simt::Max(best, static_cast<Mass>(piece_best[i]));
    RowState state{-kInfinity, op.in.first_id, 0, 0};
    if (best != 0) {
      state.max = FromOrderedBits(static_cast<uint32_t>(best >> 32));
      state.best = static_cast<int32_t>(~static_cast<uint32_t>(best));
    }
    if (view == 0) state.min_key = MinPKey(s, state.max);
    simt::SharedArena arena;
    const SelectScratch scratch = SelectScratch::Take(arena);
    if (NeedsList(op, s, view)) state.floor_key = FloorKey(op, v, scratch);
    if (view == 0) state.floor_key = simt::Max(simt::Max(state.floor_key, state.min_key), LowestKey());
    if (view == 1 && state.floor_key <= LowestKey()) state.floor_key = 0;
    if (simt::ThreadX() != 0) return;
    simt::Global<RowState>(op.work.state)[v] = state;
    simt::Global<int32_t>(op.work.num_listed)[v] = 0;
  }
};

/// Lists the tokens whose keys are at least floor_key, and sums the piece's mass. The grid is (view rows, pieces).
struct ListTokensKernel {
  using Params = SamplingOp;
  static constexpr int kThreads = kSelectThreads;
  static constexpr int64_t kSharedSize = SelectScratch::kBytes;

  static __device__ void Run(const SamplingOp& op) {
    const int64_t v = simt::BlockX(), piece = simt::BlockY();
    const DeviceSampling s = RowSampling(op, v / 2);
    if (!IsActive(s, v % 2)) return;
    const bool lists = NeedsList(op, s, v % 2), weighs = NeedsMass(s, v % 2);
    if (!lists && !weighs) return;
    const RowState state = simt::Global<RowState>(op.work.state)[v];
    const RowSource source = ViewOf(op, s, v);
    const Soften soften = SoftenOf(s, v % 2, state.max);
    const bool finite = IsFinite(state.max);
    const simt::Global<int32_t> num_listed(op.work.num_listed), ids(op.work.list_ids + v * kListSize);
    const simt::Global<float> logits(op.work.list_logits + v * kListSize);
    const int64_t first = piece * kPiece + simt::ThreadX();
    Mass mass = 0;
    for (int e = 0; e < kEach; e += RowSource::kLoads) {
      source.ForLoads(first + int64_t{e} * kThreads, [&](float logit, int32_t id) {
        const uint32_t key = OrderedBits(logit);
        if (weighs && finite && key >= state.min_key) mass += soften(logit);
        if (!lists || key < state.floor_key) return;
        const int32_t at = simt::AtomicAdd(num_listed, v, 1);
        if (at < kListSize) logits[at] = logit, ids[at] = id;
      });
    }
    if (!weighs) return;
    simt::SharedArena arena;
    const SelectScratch scratch = SelectScratch::Take(arena);
    const Mass total = BlockScan(mass, scratch).total;
    if (simt::ThreadX() == 0) simt::Global<Mass>(op.work.piece_mass)[v * op.pieces + piece] = total;
  }
};

}  // namespace quire::kernels
