#pragma once

#include "kernels/cuda/recurrent/state_cursor.cuh"

namespace quire::kernels {

/// Returns log(1 + exp(x)), which equals x in fp32 if x > 20.
__device__ inline float Softplus(float x) { return x > 20 ? x : simt::Log1p(simt::Exp(x)); }

/// Half of the rows, from row `first` on, of one column of a value head's state; lane l and lane l + 16 have the two
/// halves of a column. Rows beyond key_dim are zeros, and stay zeros as long as the keys have zeros in these
/// dimensions. There are four sums, one for each row number modulo 4, so that additions need not wait for each other.
/// All lanes of a warp must call the functions together.
template <int kRows>
struct HeadColumn {
  float s[kRows];
  int first;

  __device__ void Clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) s[i] = 0;
  }

  /// Calls body(i, index in the pool) for every existing row `first` + i. `at`: where row 0 begins in the sequence's
  /// state, in floats.
  template <class Body>
  __device__ void ForRows(const StateView& state, int64_t sequence, int64_t at, int64_t key_dim, int64_t value_dim,
                          const Body& body) const {
    if (first >= key_dim) return;
    StateCursor cursor(state, sequence, (at + first * value_dim) * 4);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (first + i >= key_dim) continue;
      if (i > 0) cursor.Advance(value_dim * 4);
      body(i, cursor.index());
    }
  }

  /// Returns the sum of both lanes' values, with the same bits in both lanes.
  __device__ static float OfBothHalves(float sum) { return sum + simt::ShuffleXor(sum, 16); }

  /// Returns S^T k, where S is the state; row 0 of the key is key[at].
  __device__ float Recall(const simt::SharedArray<float>& key, int64_t at) const {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < kRows; i += 4) {
      const simt::Vec<float, 4> k = simt::LoadVec<4>(key, at + first + i);
      for (int e = 0; e < 4; ++e) sum[e] += k.v[e] * s[i + e];
    }
    return OfBothHalves((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }

  /// Sets S = decay * S + k * change and returns S^T q of the new S.
  __device__ float Learn(const simt::SharedArray<float>& query, const simt::SharedArray<float>& key, int64_t at,
                         float change, float decay) {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < kRows; i += 4) {
      const simt::Vec<float, 4> q = simt::LoadVec<4>(query, at + first + i), k = simt::LoadVec<4>(key, at + first + i);
      for (int e = 0; e < 4; ++e) {
        s[i + e] = k.v[e] * change + s[i + e] * decay;
        sum[e] += q.v[e] * s[i + e];
      }
    }
    return OfBothHalves((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
};

/// The numbers that a token's gates give for one value head.
struct HeadGates {
  float rate;  // learning rate: beta, or the step
  float decay;
};

/// The kernel of GatedDelta and StateSpace. The grid is (sequences, value heads, pieces of value_dim): one head of a
/// sequence, for all of its new tokens; two threads per column. Queries, keys, values and gates of as many tokens as
/// there are warps are loaded into shared memory together; then every column visits them in order. The bits of a
/// token's output depend only on its inputs and the state before it. Rule defines the recurrence by these members:
///   Params: the op's parameters; static bool kNorms: queries and keys are normed (GatedDelta)
///   KeyHead(p, value head): the head's key head; Gates(p, token, value head): the HeadGates
///   Change(column, keys, where, value, gates): the change of the state; Out(p, value head, S^T q, value): the output
template <class Rule, class T, int kRows>
struct HeadStateKernel {
  using Params = typename Rule::Params;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kColumns = 128, kThreads = 2 * kColumns, kTokens = kThreads / 32;
  static constexpr int64_t kSharedSize = simt::SharedBytes(kTokens * kRows * 4) * 2 +
                                         simt::SharedBytes(kTokens * kColumns * 4) + simt::SharedBytes(kTokens * 4) * 2;

  /// Returns the number of threads of a block: at most kThreads, and no more warps of 16 columns than the head needs.
  static __host__ __device__ int Threads(int64_t value_dim) {
    return static_cast<int>(simt::Min<int64_t>(kThreads, (value_dim + 15) / 16 * 32));
  }

  /// The data of several tokens: queries and keys [kTokens, kRows], values [kTokens, kColumns], gates [kTokens].
  struct Staged {
    simt::SharedArray<float> queries, keys, values, rates, decays;
  };

  static __device__ int Warp() { return simt::ThreadX() / 32; }
  static __device__ int Lane() { return simt::ThreadX() % 32; }
  static __device__ int Column() { return Warp() * 16 + Lane() % 16; }  // column within the block
  static __device__ int Half() { return Lane() / 16; }

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const Staged staged{arena.template Take<float>(kTokens * kRows), arena.template Take<float>(kTokens * kRows),
                        arena.template Take<float>(kTokens * kColumns), arena.template Take<float>(kTokens),
                        arena.template Take<float>(kTokens)};
    const int64_t sequence = simt::BlockX(), head = simt::BlockY(), column = simt::BlockZ() * kColumns + Column();
    const bool there = column < p.value_dim;
    const int tokens = Threads(p.value_dim) / 32;
    const SequenceRows rows = RowsOf(p.state, sequence);
    const simt::Global<float> pool(reinterpret_cast<float*>(p.state.pool));
    const int64_t first = head * p.key_dim * p.value_dim + column;
    HeadColumn<kRows / 2> state;
    state.Clear();
    state.first = Half() * (kRows / 2);
    if (there && !rows.from_zeros) {
      state.ForRows(p.state, sequence, first, p.key_dim, p.value_dim, [&](int i, int64_t at) {
        const float kept = pool[at];
        state.s[i] = kept;
      });
    }
    const simt::Global<T> out(static_cast<T*>(p.out));
    for (int64_t t = rows.begin; t < rows.end; t += tokens) {
      const int count = static_cast<int>(simt::Min<int64_t>(tokens, rows.end - t));
      Stage(p, t, count, head, column, staged);
      simt::SyncThreads();
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const float value = staged.values[i * kColumns + Column()];
        const HeadGates gates{staged.rates[i], staged.decays[i]};
        const float change = Rule::Change(state, staged.keys, int64_t{i} * kRows, value, gates);
        const float recalled = state.Learn(staged.queries, staged.keys, int64_t{i} * kRows, change, gates.decay);
        if (!there || Half() != 0) continue;
        out[((t + i) * p.value_heads + head) * p.value_dim + column] =
            simt::FromFloat<T>(Rule::Out(p, head, recalled, value));
      }
      simt::SyncThreads();
    }
    if (!there || !rows.keeps) return;
    state.ForRows(p.state, sequence, first, p.key_dim, p.value_dim, [&](int i, int64_t at) { pool[at] = state.s[i]; });
  }

  /// Loads the data of `count` tokens into shared memory. Columns beyond value_dim become zeros.
  static __device__ void Stage(const Params& p, int64_t t, int count, int64_t head, int64_t column,
                               const Staged& staged) {
    const simt::Global<const T> values(static_cast<const T*>(p.values));
#pragma unroll
    for (int i = 0; i < kTokens; i += 2) {
      const int token = i + Half();
      if (token >= count) continue;
      float value = 0;
      if (column < p.value_dim) {
        const T stored = values[(t + token) * p.row_stride + head * p.value_dim + column];
        value = simt::ToFloat(stored);
      }
      staged.values[token * kColumns + Column()] = value;
    }
    if (Warp() >= count) return;
    const int64_t from = (t + Warp()) * p.row_stride + Rule::KeyHead(p, head) * p.key_dim;
    StageRow(static_cast<const T*>(p.queries), from, p.key_dim, simt::Rsqrt(static_cast<float>(p.key_dim)),
             staged.queries, Warp() * kRows);
    StageRow(static_cast<const T*>(p.keys), from, p.key_dim, 1.0f, staged.keys, Warp() * kRows);
    if (Lane() != 0) return;
    const HeadGates gates = Rule::Gates(p, t + Warp(), head);
    staged.rates[Warp()] = gates.rate;
    staged.decays[Warp()] = gates.decay;
  }

  static __device__ void StageRow(const T* rows, int64_t from, int64_t key_dim, float scale,
                                  const simt::SharedArray<float>& to, int at) {
    const simt::Global<const T> row(rows);
    float numbers[kRows / 32];
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kRows / 32; ++j) {
      numbers[j] = 0;
      if (Lane() + 32 * j >= key_dim) continue;
      const T stored = row[from + Lane() + 32 * j];
      numbers[j] = simt::ToFloat(stored);
      squares += numbers[j] * numbers[j];
    }
    float factor = 1;
    if (Rule::kNorms) {
      for (int mask = 16; mask > 0; mask /= 2) squares += simt::ShuffleXor(squares, mask);
      factor = simt::Rsqrt(squares + 1e-6f) * scale;
    }
#pragma unroll
    for (int j = 0; j < kRows / 32; ++j) to[at + Lane() + 32 * j] = numbers[j] * factor;
  }
};

}  // namespace quire::kernels
