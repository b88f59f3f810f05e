#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/elementwise/step_state.h"

namespace quire::kernels {

/// The kernel of ScatterTable: one thread per entry.
struct ScatterTableKernel {
  using Params = ScatterTableParams;
  static constexpr int kThreads = 128;

  static __device__ void Run(const Params& p) {
    const int64_t i = simt::BlockX() * kThreads + simt::ThreadX();
    if (i >= p.num_entries) return;
    const TableEntry entry = simt::Global<const TableEntry>(p.entries)[i];
    if (entry.row >= 0) simt::Global<int32_t>(p.table)[entry.row * p.table_stride + entry.index] = entry.block;
  }
};

/// The kernel of GatherRows. The grid is (rows, pieces of a row).
struct GatherRowsKernel {
  using Params = GatherRowsParams;
  static constexpr int kThreads = 128;
  static constexpr int64_t kPiece = kThreads * 16;

  static __device__ void Run(const Params& p) {
    const int64_t row = simt::BlockX(), at = simt::BlockY() * kPiece + simt::ThreadX() * 16;
    const int64_t source = simt::Global<const int32_t>(p.row_ids)[row];
    if (at >= p.row_bytes || source < 0) return;
    const simt::Global<const uint32_t> in(static_cast<const uint32_t*>(p.in));
    const simt::Vec<uint32_t, 4> bytes = simt::LoadVec<4>(in, (source * p.row_bytes + at) / 4);
    simt::StoreVec(simt::Global<uint32_t>(static_cast<uint32_t*>(p.out)), (row * p.row_bytes + at) / 4, bytes);
  }
};

/// The kernel of FeedTokens: one thread per token.
struct FeedTokensKernel {
  using Params = FeedTokensParams;
  static constexpr int kThreads = 128;

  static __device__ void Run(const Params& p) {
    const int64_t t = simt::BlockX() * kThreads + simt::ThreadX();
    if (t >= p.num_tokens) return;
    const int32_t slot = simt::Global<const int32_t>(p.from_slot)[t];
    if (slot < 0) return;
    const int32_t token = simt::Global<const int32_t>(p.last_token)[slot];
    simt::Global<int32_t>(p.token_ids)[t] = token;
  }
};

/// counts[slot, token] += 1, up to 32,767, if the token belongs to this shard of the vocabulary.
__device__ inline void CountToken(const CountTable& table, int64_t slot, int32_t token) {
  const int64_t column = int64_t{token} - table.first_id;
  if (column < 0 || column >= table.vocab) return;
  const simt::Global<uint16_t> counts(table.counts + slot * table.stride);
  const uint16_t seen = counts[column];
  if ((seen & 0x7fff) != 0x7fff) counts[column] = static_cast<uint16_t>(seen + 1);
}

/// The kernel of KeepTokens: one thread per row.
struct KeepTokensKernel {
  using Params = KeepTokensParams;
  static constexpr int kThreads = 128;

  static __device__ void Run(const Params& p) {
    const int64_t row = simt::BlockX() * kThreads + simt::ThreadX();
    if (row >= p.num_rows) return;
    const int32_t slot = simt::Global<const int32_t>(p.slot)[row];
    const DeviceSampling s = simt::Global<const DeviceSampling>(p.rows)[row];
    if (slot < 0 || s.draws == 0) return;
    if (p.draws != nullptr) {
      const ShardDraw draw = simt::Global<const ShardDraw>(p.draws)[row];
      if (draw.state == DrawState::kWholeRow) return;
    }
    const int32_t token = simt::Global<const int32_t>(&p.drawn[row].token)[0];
    simt::Global<int32_t>(p.last_token)[slot] = token;
    if (s.count_slot >= 0) CountToken(p.table, s.count_slot, token);
  }
};

/// The kernel of FillCounts: one thread block per sequence. A thread counts only tokens whose id, modulo the block
/// size, equals its index, so that no two threads write the same count.
struct FillCountsKernel {
  using Params = FillCountsParams;
  static constexpr int kThreads = 256;

  static __device__ void Run(const Params& p) {
    const CountedSequence sequence = simt::Global<const CountedSequence>(p.sequences)[simt::BlockX()];
    if (sequence.count_slot < 0) return;
    const simt::Global<uint16_t> counts(p.table.counts + sequence.count_slot * p.table.stride);
    const simt::Global<const int32_t> tokens(p.tokens);
    for (int64_t i = simt::ThreadX(); i < p.table.vocab; i += kThreads) counts[i] = uint16_t{0};
    simt::SyncThreads();
    for (int64_t i = sequence.begin + simt::ThreadX(); i < sequence.prompt_end; i += kThreads) {
      const int64_t column = int64_t{tokens[i]} - p.table.first_id;
      if (column >= 0 && column < p.table.vocab) counts[column] = uint16_t{0x8000};
    }
    simt::SyncThreads();
    for (int64_t i = sequence.prompt_end; i < sequence.end; ++i) {
      const int32_t token = tokens[i];
      if (token % kThreads == simt::ThreadX()) CountToken(p.table, sequence.count_slot, token);
    }
  }
};

}  // namespace quire::kernels
