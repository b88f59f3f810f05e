#pragma once

#include <type_traits>

#include "kernels/cuda/decode/attention_sink.cuh"
#include "kernels/cuda/decode/decode_attention_tiles.cuh"

namespace quire::kernels {

/// The state that a lane holds in registers for two rows of an item: row lane / 4 and row lane / 4 + 8.
template <int kHeadSize>
struct DecodeRows {
  uint32_t query[DecodeKeepsQueries(kHeadSize) ? kHeadSize / 16 : 1][4];
  float out[kHeadSize / 8][4];
  float max[2], sum[2], slope[2];  // max: base-2 exponent; sum: over the lane's tokens
};

/// Merges the warps' outputs at the end of an item.
template <class T, class C, int kHeadSize>
struct DecodeMeeting {
  using Params = DecodeAttentionLaunch;
  using Tiles = DecodeTiles<T, C, kHeadSize>;
  using Tile = typename Tiles::Tile;
  static constexpr int kWarps = Tiles::kWarps, kThreads = Tiles::kThreads;
  static constexpr bool kFp8 = !std::is_same_v<T, C>;

  // The warps' outputs overwrite the stage of the item's last tile. With E4M3 a stage is smaller, so there are two
  // rounds.
  static constexpr int kRounds = kFp8 ? 2 : 1, kColumns = kHeadSize / kRounds;
  static constexpr int kStride = kColumns + 8;  // floats between rows; the padding spreads rows over the banks
  static_assert(kWarps * kDecodeRows * kStride * 4 <= Tiles::kStageBytes);

  struct Stats {
    simt::SharedArray<float> max, sum;  // [kWarps, kDecodeRows]
  };

  /// Merges the warps' results and writes them to the output or to the item's workspace slot. `meeting` is the memory
  /// of the stage that the warps have just read.
  static __device__ void Finish(const Params& p, const Tile& tile, const simt::SharedArray<float>& meeting,
                                const Stats& stats, DecodeRows<kHeadSize>& rows) {
    const int lane = simt::ThreadX() % 32, first_row = simt::ThreadX() / 32 * kDecodeRows + lane / 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = rows.sum[h];
      sum += simt::ShuffleXor(sum, 1);
      sum += simt::ShuffleXor(sum, 2);
      if (lane % 4 == 0) {
        stats.max[first_row + 8 * h] = rows.max[h];
        stats.sum[first_row + 8 * h] = sum;
      }
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      simt::SyncThreads();
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
        const float(&out)[4] = rows.out[round * (kColumns / 8) + i];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (lane / 4 + 8 * h >= tile.num_heads) continue;
          const simt::Vec<float, 2> pair{{out[2 * h], out[2 * h + 1]}};
          simt::StoreVec(meeting, (first_row + 8 * h) * kStride + i * 8 + lane % 4 * 2, pair);
        }
      }
      simt::SyncThreads();
      for (int i = simt::ThreadX(); i < tile.num_heads * (kColumns / 4); i += kThreads) {
        const int row = i / (kColumns / 4), column = i % (kColumns / 4) * 4;
        Merge(p, tile, row, round * kColumns + column, meeting + (row * kStride + column), stats);
      }
    }
  }

  /// Merges four columns of a row. `own` points at warp 0's output for these columns.
  static __device__ void Merge(const Params& p, const Tile& tile, int row, int column,
                               const simt::SharedArray<float>& own, const Stats& stats) {
    float max = stats.max[row], sum = 0;
#pragma unroll
    for (int w = 1; w < kWarps; ++w) max = simt::Max(max, static_cast<float>(stats.max[w * kDecodeRows + row]));
    simt::Vec<float, 4> out{};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = simt::Exp2(stats.max[w * kDecodeRows + row] - max);
      sum += factor * stats.sum[w * kDecodeRows + row];
      const simt::Vec<float, 4> part = simt::LoadVec<4>(own, w * kDecodeRows * kStride);
#pragma unroll
      for (int e = 0; e < 4; ++e) out.v[e] += factor * part.v[e];
    }
    if (tile.slot < 0) sum += SinkWeight(p.op.sinks, tile.first_head + row, max);
    const float factor = p.op.cache.v_scale / sum;  // if no token is visible, the sum is not 0 but `out` is
#pragma unroll
    for (int e = 0; e < 4; ++e) out.v[e] *= factor;
    if (tile.slot < 0) {
      const int64_t at = tile.seq * p.op.out_stride + (tile.first_head + row) * kHeadSize + column;
      simt::Vec<T, 4> rounded;
#pragma unroll
      for (int e = 0; e < 4; ++e) rounded.v[e] = simt::FromFloat<T>(out.v[e]);
      simt::StoreVec(simt::Global<T>(static_cast<T*>(p.op.out)), at, rounded);
      return;
    }
    const int64_t at = int64_t{tile.slot} * kDecodeRows + row;
    simt::StoreVec(simt::Global<float>(p.partial), at * kHeadSize + column, out);
    if (column > 0) return;
    simt::Global<float>(p.max_score)[at] = max;
    simt::Global<float>(p.exp_sum)[at] = sum;
  }
};

}  // namespace quire::kernels
