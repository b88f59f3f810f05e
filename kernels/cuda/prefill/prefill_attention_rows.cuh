#pragma once

#include "kernels/cuda/decode/attention_sink.cuh"
#include "kernels/cuda/prefill/prefill_attention_parts.cuh"
#include "kernels/cuda/prefill/prefill_attention_tiles.cuh"

namespace quire::kernels {

/// The work of a thread block on its rows, apart from the matrix products. A warp owns kRows / kWarps rows from their
/// first score to their result. kKeys: how many keys of a tile are processed together. kTogether: how many neighbouring
/// rows skip the same tiles.
template <class T, int kHeadSize, int kRowsOfBlock, int kWarpsOfBlock, int kKeysAtOnce, int kTogether>
struct PrefillRows {
  static constexpr int kRows = kRowsOfBlock, kWarps = kWarpsOfBlock, kThreads = kWarps * 32, kKeys = kKeysAtOnce;
  static constexpr int kSlabs = kRows / kWarps / 16;  // slabs of 16 rows (an mma's) per warp
  static constexpr int kUnits = kHeadSize / 8;        // number of 8-column units per row
  static constexpr float kLog2E = 1.44269504f;
  static_assert(kHeadSize % 16 == 0 && kRows == PrefillTileRows(NumberType::kBF16, kHeadSize));

  /// A lane's part of its warp's rows, in the layout of an mma's result. In each slab of 16 rows, the lane has rows
  /// lane / 4 and lane / 4 + 8. In each group of 8 columns, it has column lane % 4 * 2 and the next. Each lane sums
  /// only its own columns; the lanes' sums are added last. A score times `factor` is a base-2 exponent.
  struct Rows {
    float out[kSlabs][kUnits][4] = {};
    float max[kSlabs][2], sum[kSlabs][2] = {};
    int first, end;                     // rows of the block
    int first_position, last_position;  // range of positions of all rows that skip the same tiles; -1: no rows
    float factor;
  };
  using Scores = float[kSlabs][kKeys / 8][4];

  /// Starts copying the rows' queries; rows past the end repeat the last one.
  static __device__ void CopyQueries(const PrefillLaunch& p, const PrefillWork& work,
                                     const simt::SharedArray<T>& queries) {
    const simt::Global<const T> from(static_cast<const T*>(p.op.queries));
#pragma unroll
    for (int row = simt::ThreadX() / 2; row < kRows; row += kThreads / 2) {
      const int real = simt::Min(row, work.num_rows - 1);
      const int64_t base = (work.first_query + work.Query(real)) * p.op.query_stride + work.Head(real) * kHeadSize;
#pragma unroll
      for (int unit = simt::ThreadX() % 2; unit < kUnits; unit += 2) {
        simt::CopyAsync<16>(queries, UnitOf(unit, row, kRows), from, base + unit * 8);
      }
    }
  }

  static __device__ Rows Begin(const PrefillLaunch& p, const PrefillWork& work) {
    Rows rows;
    rows.first = simt::ThreadX() / 32 * (kRows / kWarps);
    rows.end = simt::Min(rows.first + kRows / kWarps, work.num_rows);
    const int together = rows.first / kTogether * kTogether, end = simt::Min(together + kTogether, work.num_rows);
    const bool any = together < end;
    rows.first_position = any ? work.Position(together) : -1;
    rows.last_position = any ? work.Position(end - 1) : -1;
    const bool scaled = p.op.soft_cap > 0 || p.op.alibi_slopes != nullptr;  // Adjust() applies the scale
    rows.factor = (scaled ? 1.0f : p.scale) * kLog2E;
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) rows.max[s][0] = rows.max[s][1] = -INFINITY;
    return rows;
  }

  /// True if none of the rows that skip tiles together sees a key of [begin, end).
  static __device__ bool SeesNothing(const PrefillLaunch& p, const Rows& rows, int begin, int end) {
    return begin > rows.last_position || end <= rows.first_position - p.window + 1;
  }

  /// Turns the scores of the kKeys keys from `begin` on into weights.
  static __device__ void TurnIntoWeights(const PrefillLaunch& p, const PrefillWork& work, int begin, Rows& rows,
                                         Scores& scores) {
    const bool hides = begin + kKeys > rows.first_position + 1 || begin <= rows.last_position - p.window;
    if (hides || p.op.soft_cap > 0 || p.op.alibi_slopes != nullptr) Adjust(p, work, begin, rows, scores);
    Weigh(rows, scores);
  }

  /// Stores the rows' results, or their partial results if the thread block has only a part of the positions.
  static __device__ void StoreRows(const PrefillLaunch& p, const PrefillWork& work, const simt::SharedArray<T>& queries,
                                   const Rows& rows) {
    if (rows.first >= rows.end) return;
    if (work.slot >= 0) return StorePart(p, work, rows);
    Store(p, work, queries, rows);
  }

  /// Applies soft cap, ALiBi and masks. Called only for tiles that need one of them. The tile begins at `begin`.
  static __device__ void Adjust(const PrefillLaunch& p, const PrefillWork& work, int begin, const Rows& rows,
                                Scores& scores) {
    const int lane = simt::ThreadX() % 32;
    const bool sloped = p.op.alibi_slopes != nullptr;
    if (p.op.soft_cap > 0) Cap(p.scale, p.op.soft_cap, scores);
    const float scale = p.op.soft_cap > 0 ? 1.0f : p.scale;
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = simt::Min(rows.first + s * 16 + half * 8 + lane / 4, work.num_rows - 1);
        // `distance` is the position of the lane's first column minus the row's position; it is negative if the column
        // is earlier.
        const int distance = begin + lane % 4 * 2 - work.Position(row);
        const float slope = sloped ? simt::Global<const float>(p.op.alibi_slopes)[work.Head(row)] : 0.0f;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int away = distance + n * 8 + e;
            float& score = scores[s][n][half * 2 + e];
            if (sloped) score = score * scale + slope * static_cast<float>(away);
            if (away > 0 || away <= -p.window) score = -INFINITY;
          }
        }
      }
    }
  }

  static __device__ void Cap(float scale, float soft_cap, Scores& scores) {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[s][n][i] = soft_cap * simt::Tanh(scores[s][n][i] * scale / soft_cap);
      }
    }
  }

  /// Turns scores into weights relative to the rows' largest score until now, and rescales the sums.
  static __device__ void Weigh(Rows& rows, Scores& scores) {
    float rescale[kSlabs][2];
    bool changes = false;
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float max = rows.max[s][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          max = simt::Max(max, simt::Max(scores[s][n][half * 2], scores[s][n][half * 2 + 1]));
        }
        max = simt::Max(max, simt::ShuffleXor(max, 1));
        max = simt::Max(max, simt::ShuffleXor(max, 2));
        const float top = max == -INFINITY ? 0.0f : max;                         // a row may have seen nothing yet
        rescale[s][half] = simt::Exp2((rows.max[s][half] - top) * rows.factor);  // exactly 1 if the maximum stays
        changes = changes || rescale[s][half] != 1.0f;
        rows.max[s][half] = max;
        float sum = rows.sum[s][half] * rescale[s][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            scores[s][n][e] = simt::Exp2(scores[s][n][e] * rows.factor - top * rows.factor);
            sum += scores[s][n][e];
          }
        }
        rows.sum[s][half] = sum;
      }
    }
    if (simt::Any(changes)) Rescale(rescale, rows);  // usually unnecessary, because the largest scores come early
  }

  static __device__ void Rescale(const float (&rescale)[kSlabs][2], Rows& rows) {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
      for (int n = 0; n < kUnits; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) rows.out[s][n][i] *= rescale[s][i / 2];
      }
    }
  }

  /// Returns the sum over the four lanes that share a row.
  static __device__ float SumOfLanes(float sum) {
    sum += simt::ShuffleXor(sum, 1);
    return sum + simt::ShuffleXor(sum, 2);
  }

  /// Writes results over the warp's queries in shared memory, and from there to `out` in whole units. Queries and
  /// results have the same layout, so each lane writes only what no other lane has read.
  static __device__ void Store(const PrefillLaunch& p, const PrefillWork& work, const simt::SharedArray<T>& queries,
                               const Rows& rows) {
    const int lane = simt::ThreadX() % 32;
    const simt::SharedArray<uint32_t> pairs = simt::As<uint32_t>(queries);
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = SumOfLanes(rows.sum[s][half]);
        const int row = rows.first + s * 16 + half * 8 + lane / 4;
        sum += SinkWeight(p.op.sinks, work.Head(row < work.num_rows ? row : 0), rows.max[s][half] * rows.factor);
        const float factor = p.op.cache.v_scale / sum;
#pragma unroll
        for (int n = 0; n < kUnits; ++n) {
          const float(&o)[4] = rows.out[s][n];
          pairs[UnitOf(n, row, kRows) / 2 + lane % 4] =
              simt::PackPair<T>(o[half * 2] * factor, o[half * 2 + 1] * factor);
        }
      }
    }
    simt::SyncWarp();
    const simt::Global<T> out(static_cast<T*>(p.op.out));
    for (int row = rows.first + lane / 2; row < rows.end; row += 16) {
      const int64_t base = (work.first_query + work.Query(row)) * p.op.out_stride + work.Head(row) * kHeadSize;
      for (int unit = lane % 2; unit < kUnits; unit += 2) {
        simt::StoreVec<8>(out, base + unit * 8, simt::LoadVec<8>(queries, UnitOf(unit, row, kRows)));
      }
    }
  }

  /// Writes the rows' partial results for a part of the positions to the workspace.
  static __device__ void StorePart(const PrefillLaunch& p, const PrefillWork& work, const Rows& rows) {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = SumOfLanes(rows.sum[s][half]);
        const int row = rows.first + s * 16 + half * 8 + simt::ThreadX() % 32 / 4;
        if (row >= work.num_rows) continue;
        const int64_t at = PrefillPartAt(p, work, work.slot, row, kRows, kHeadSize);
        StorePrefillPart(p, at, half, rows.out[s], rows.max[s][half] * rows.factor, sum);
      }
    }
  }
};

}  // namespace quire::kernels
