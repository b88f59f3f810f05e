#pragma once

#include <cfloat>
#include <simt/tensor_core.cuh>

#include "kernels/cuda/decode/decode_attention_meeting.cuh"

namespace quire::kernels {

/// The kernel of DecodeAttention. The grid has num_ctas CTAs; each processes its items of the work list. In the
/// tensor-core tiles, rows are the query heads of one group and columns are tokens. A warp attends to its 16 tokens of
/// every tile with a maximum, sum and output of its own; the warps' outputs are merged at the end of an item. Scores
/// and sums are fp32; probabilities are rounded to M. T: type of queries and results; C: type of the cache; M: type of
/// the tensor-core operands. E4M3 is exact in fp16; for it, queries are clamped to fp16's finite range.
template <class T, class C, int kHeadSize>
struct DecodeAttentionKernel : DecodeTiles<T, C, kHeadSize> {
  using Params = DecodeAttentionLaunch;
  using Tiles = DecodeTiles<T, C, kHeadSize>;
  using Tile = typename Tiles::Tile;
  using Rows = DecodeRows<kHeadSize>;
  using Meeting = DecodeMeeting<T, C, kHeadSize>;
  using Stats = typename Meeting::Stats;
  using Tiles::kStageBytes, Tiles::kThreads, Tiles::kTile, Tiles::kWarps;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr bool kFp8 = Meeting::kFp8;
  using M = std::conditional_t<kFp8, simt::Half, T>;
  static constexpr int kSteps = kHeadSize / 16;
  static constexpr int kRaw = kFp8 ? 2 : 4;  // matrices with rows of 16 bytes in 16 tokens by 16 dimensions

  static constexpr bool kInRegisters = DecodeKeepsQueries(kHeadSize);
  static constexpr int kScoreSteps = kInRegisters ? kSteps : 4;  // unrolled; more would take registers for early loads
  static constexpr int kKept = kInRegisters ? 0 : kDecodeRows * kHeadSize;  // elements of queries in shared memory

  static constexpr int64_t SharedSize(int64_t stages) {
    return simt::SharedBytes(stages * kStageBytes) + simt::SharedBytes(stages * Tiles::kNoteInts * 4) +
           2 * simt::SharedBytes(kWarps * kDecodeRows * 4) + kKept * static_cast<int64_t>(sizeof(T));
  }

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();  // the next kernel may load its weights while this kernel runs
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const int stages = p.op.stages;
    const simt::SharedArray<uint8_t> ring = arena.template Take<uint8_t>(stages * kStageBytes);
    const simt::SharedArray<int32_t> notes = arena.template Take<int32_t>(stages * Tiles::kNoteInts);
    Tiles tiles{ring, notes};
    const simt::SharedArray<float> warp_max = arena.template Take<float>(kWarps * kDecodeRows);
    const Stats stats{warp_max, arena.template Take<float>(kWarps * kDecodeRows)};
    const simt::SharedArray<T> kept = arena.template Take<T>(kKept);

    tiles.Begin(p);
    for (int s = 0; s + 1 < stages; ++s) tiles.Fetch(p, s);
    Rows rows;
    for (int stage = 0;; stage = stage + 1 < stages ? stage + 1 : 0) {
      Tiles::WaitForOldest(stages);
      simt::SyncThreads();
      // All threads have just left the previous stage, so its memory can be filled again.
      tiles.Fetch(p, stage > 0 ? stage - 1 : stages - 1);
      const Tile tile = tiles.Read(stage);
      if (tile.position < 0) break;
      if (tile.first) StartRows(p.op, tile, tiles.Queries(stage), kept, rows);
      Attend(p.op, tile, tiles, stage, kept, rows);
      if (tile.last) Meeting::Finish(p, tile, simt::As<float>(tiles.ring + stage * kStageBytes), stats, rows);
    }
  }

  static __device__ int Lane() { return simt::ThreadX() % 32; }
  static __device__ int Warp() { return simt::ThreadX() / 32; }

  static __device__ void StartRows(const DecodeAttentionParams& p, const Tile& tile,
                                   const simt::SharedArray<T>& queries, const simt::SharedArray<T>& kept, Rows& rows) {
    if constexpr (kInRegisters) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        LoadQuery(queries, s, rows.query[s]);
        if constexpr (kFp8) {
#pragma unroll
          for (int e = 0; e < 4; ++e) rows.query[s][e] = Narrow(rows.query[s][e]);
        }
      }
    } else {
      const simt::SharedArray<uint32_t> from = simt::As<uint32_t>(queries), to = simt::As<uint32_t>(kept);
      for (int i = simt::ThreadX() * 4; i < kKept / 2; i += kThreads * 4) {
        simt::Vec<uint32_t, 4> pairs = simt::LoadVec<4>(from, i);
        if constexpr (kFp8) {
#pragma unroll
          for (int e = 0; e < 4; ++e) pairs.v[e] = Narrow(pairs.v[e]);
        }
        simt::StoreVec(to, i, pairs);
      }
      simt::SyncThreads();  // all threads of the block are at the item's first tile
    }
#pragma unroll
    for (int i = 0; i < kHeadSize / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) rows.out[i][e] = 0;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows.max[h] = -FLT_MAX;
      rows.sum[h] = rows.slope[h] = 0;
      const int head = Lane() / 4 + 8 * h;
      if (p.alibi_slopes != nullptr && head < tile.num_heads) {
        rows.slope[h] = simt::Global<const float>(p.alibi_slopes)[tile.first_head + head] * kLog2E;
      }
    }
  }

  /// Loads step s of the queries from shared memory. With one-byte keys, a lane gets 4 neighbouring dimensions of the
  /// queries, as it gets 4 of the keys.
  static __device__ void LoadQuery(const simt::SharedArray<T>& queries, int s, uint32_t (&query)[4]) {
    const int lane = Lane();
    if constexpr (!kFp8) {
      const int row = lane % 8 + lane / 8 % 2 * 8;
      simt::LoadMatrix<4>(query, queries, ((2 * s + lane / 16) * kDecodeRows + row) * 8);
    } else {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = ((2 * s + lane % 4 / 2) * kDecodeRows + lane / 4 + 8 * h) * 8 + lane % 2 * 4;
        const simt::Vec<uint32_t, 2> pairs = simt::LoadVec<2>(simt::As<uint32_t>(queries), at / 2);
        query[h] = pairs.v[0];
        query[2 + h] = pairs.v[1];
      }
    }
  }
  /// Converts a pair of queries to M, for products with E4M3 keys.
  static __device__ uint32_t Narrow(uint32_t pair) {
    const simt::Vec<float, 2> q = simt::UnpackPair<T>(pair);
    return simt::PackPair<M>(Clamp(q.v[0]), Clamp(q.v[1]));
  }
  /// Clamps to fp16's finite range. NaN stays NaN.
  static __device__ float Clamp(float x) {
    constexpr float kLargest = 65504;
    return x > kLargest ? kLargest : x < -kLargest ? -kLargest : x;
  }

  /// Returns the index, among the warp's 16 tokens, of the token to which number e % 2 of this lane's column fragment t
  /// belongs. With E4M3, 4 neighbouring tokens are in one lane.
  static __device__ int TokenOf(int t, int e) {
    return kFp8 ? Lane() % 4 * 4 + t * 2 + e % 2 : t * 8 + Lane() % 4 * 2 + e % 2;
  }

  /// Sets b, the right operand of a matrix product, from the t-th registers of `raw`. FP8 numbers are converted.
  static __device__ void Fragment(const uint32_t (&raw)[kRaw], int t, uint32_t (&b)[2]) {
    if constexpr (kFp8) {
      b[0] = simt::PairFromFp8<M>(static_cast<uint16_t>(raw[t] & 0xffff));
      b[1] = simt::PairFromFp8<M>(static_cast<uint16_t>(raw[t] >> 16));
    } else {
      b[0] = raw[2 * t], b[1] = raw[2 * t + 1];
    }
  }

  static __device__ void Attend(const DecodeAttentionParams& p, const Tile& tile, const Tiles& tiles, int stage,
                                const simt::SharedArray<T>& kept, Rows& rows) {
    float score[2][4] = {};
    Scores(tiles.Keys(stage), kept, rows, score);
    const int first = tile.position + Warp() * 16;  // first of the warp's tokens
    if (first >= tile.begin && first + 16 <= tile.end) {
      AddValues<false>(p, tile, tiles, stage, first, score, rows);
    } else {
      AddValues<true>(p, tile, tiles, stage, first, score, rows);
    }
  }

  /// Turns the warp's scores into weights and adds the weighted values to `rows`; this is the second half of Attend().
  /// kMasked: some of the warp's tokens may be invisible.
  template <bool kMasked>
  static __device__ void AddValues(const DecodeAttentionParams& p, const Tile& tile, const Tiles& tiles, int stage,
                                   int first, float (&score)[2][4], Rows& rows) {
    uint32_t keep[2] = {0xffffffff, 0xffffffff};  // masks of the visible values in each pair
    uint32_t weights[4] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (h == 1 && tile.num_heads <= 8) break;  // uniform in the warp: rows 8 to 15 are not heads
      float max = rows.max[h];
#pragma unroll
      for (int t = 0; t < 2; ++t) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int position = first + TokenOf(t, e);
          float& s = score[t][2 * h + e];
          s = Scale(p, s, rows.slope[h], position - (tile.context - 1));
          if constexpr (kMasked) {
            const bool counts = position >= tile.begin && position < tile.end;
            if (!counts) s = -FLT_MAX;
            if (!counts) keep[t] &= ~(0xffffu << (16 * e));
          }
          max = simt::Max(max, s);
        }
      }
      max = simt::Max(max, simt::ShuffleXor(max, 1));
      max = simt::Max(max, simt::ShuffleXor(max, 2));
      if (simt::Any(max != rows.max[h])) Rescale(h, max, rows);
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        // Once a visible token was seen, invisible tokens get weight 0. Before that they get weight 1, which Rescale()
        // or Merge() later multiplies by 0.
        const float low = simt::Exp2(score[t][2 * h] - max), high = simt::Exp2(score[t][2 * h + 1] - max);
        rows.sum[h] += low + high;
        weights[2 * t + h] = simt::PackPair<M>(low, high);
      }
    }
    WeightedSum<kMasked>(tiles, stage, weights, keep, rows);
  }

  /// Rescales the sums and outputs of the rows of half h to a new largest score. A new largest score is rare, because
  /// large scores usually come early.
  static __device__ void Rescale(int h, float max, Rows& rows) {
    const float factor = simt::Exp2(rows.max[h] - max);
    rows.max[h] = max;
    rows.sum[h] *= factor;
#pragma unroll
    for (int i = 0; i < kHeadSize / 8; ++i) rows.out[i][2 * h] *= factor, rows.out[i][2 * h + 1] *= factor;
  }

  static constexpr float kLog2E = 1.44269504f;
  /// Turns the product of a query and a stored key into a score as an exponent of 2: applies the scales, the soft cap
  /// and ALiBi.
  static __device__ float Scale(const DecodeAttentionParams& p, float product, float slope, int distance) {
    float score = product * (p.scale * p.cache.k_scale);
    if (p.soft_cap > 0) score = p.soft_cap * simt::Tanh(score / p.soft_cap);
    return score * kLog2E + slope * static_cast<float>(distance);
  }

  /// score[t] += queries * keys, for the warp's tokens.
  static __device__ void Scores(const simt::SharedArray<C>& keys, const simt::SharedArray<T>& kept, Rows& rows,
                                float (&score)[2][4]) {
    const int lane = Lane(), row = lane % 8, matrix = lane / 8;
    const int token = Warp() * 16 + (kFp8 ? row / 2 * 4 + row % 2 + matrix % 2 * 2 : matrix / 2 * 8 + row);
    const int piece = kFp8 ? 0 : matrix % 2;
    constexpr int kPieces = kFp8 ? 1 : 2;  // per step
#pragma unroll kScoreSteps
    for (int s = 0; s < kSteps; ++s) {
      uint32_t(&query)[4] = rows.query[kInRegisters ? s : 0];
      if constexpr (!kInRegisters) LoadQuery(kept, s, query);
      uint32_t raw[kRaw];
      simt::LoadMatrix<kRaw>(raw, simt::As<simt::Half>(keys), ((s * kPieces + piece) * kTile + token) * 8);
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        uint32_t b[2];
        Fragment(raw, t, b);
        simt::Mma<M>(score[t], query, b);
      }
    }
  }

  /// rows.out += weights * values, for the warp's tokens. Values of invisible slots are set to 0 despite their weight
  /// 0, because 0 * NaN is NaN.
  template <bool kMasked>
  static __device__ void WeightedSum(const Tiles& tiles, int stage, const uint32_t (&weights)[4],
                                     const uint32_t (&keep)[2], Rows& rows) {
    const simt::SharedArray<C> values = tiles.Values(stage);
    const int lane = Lane(), matrix = lane / 8;
    const int row = kFp8 ? Warp() : Warp() * 2 + matrix % 2;
    const int dim = (kFp8 ? matrix % 2 : matrix / 2) * 8 + (lane % 8 ^ tiles.Swizzle(row));
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t raw[kRaw];
      simt::LoadMatrix<kRaw>(raw, simt::As<simt::Half>(values), (row * kHeadSize + s * 16 + dim) * 8);
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        uint32_t b[2];
        Fragment(raw, t, b);
        if constexpr (kMasked) b[0] &= keep[0], b[1] &= keep[1];
        simt::Mma<M>(rows.out[2 * s + t], weights, b);
      }
    }
  }
};

}  // namespace quire::kernels
