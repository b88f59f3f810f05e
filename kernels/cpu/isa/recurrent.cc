// The vectorised parts of layers with a recurrent state: convolutions along the tokens, the gated delta rule, state
// spaces, and gates.
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/recurrent_table.h"
#include "kernels/cpu/isa/state_bytes.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
/// The columns of a head's state that are computed together. With a key_dim of 128, these columns stay in the
/// first-level cache.
constexpr int64_t kPanelVecs = 4, kPanel = kPanelVecs * kLanes;

/// Loads up to `count` floats; the other lanes are 0.
Vec LoadUpTo(const float* p, int64_t count) { return count < kLanes ? LoadPart(p, count) : Load(p); }

void StoreUpTo(float* p, Vec v, int64_t count) {
  __builtin_memcpy(p, &v, static_cast<unsigned long>(Least(count, kLanes)) * sizeof(float));
}

Vec Sigmoid(Vec x) { return 1.0f / (Exp(-x) + 1.0f); }

/// kPanelVecs vectors of columns; only the first `count` columns exist.
struct Panel {
  Vec part[kPanelVecs] = {};

  static Panel Of(const float* p, int64_t count) {
    Panel panel;
    __builtin_memcpy(&panel.part, p, static_cast<unsigned long>(count) * sizeof(float));
    return panel;
  }
  void StoreTo(float* p, int64_t count) const {
    __builtin_memcpy(p, &part, static_cast<unsigned long>(count) * sizeof(float));
  }
};

/// Two sums per column, one of even and one of odd rows, so that additions need not wait for each other.
struct ColumnSums {
  Panel even, odd;

  Panel Total() const {
    Panel total;
    for (int64_t v = 0; v < kPanelVecs; ++v) total.part[v] = even.part[v] + odd.part[v];
    return total;
  }
};

/// Returns S^T k for the panel's columns, where S is `state`, [key_dim, kPanel].
Panel Recall(const float* state, const float* key, int64_t key_dim) {
  ColumnSums sums;
  for (int64_t i = 0; i < key_dim; ++i) {
    Panel& sum = i % 2 == 0 ? sums.even : sums.odd;
    const Vec k = Splat(key[i]);
    for (int64_t v = 0; v < kPanelVecs; ++v)
      sum.part[v] = MulAdd(k, Load(state + i * kPanel + v * kLanes), sum.part[v]);
  }
  return sums.Total();
}

/// Sets S = decay * S + k d^T, where S is `state` and d is `change`. Returns S^T q of the new S.
Panel Learn(float* state, const float* query, const float* key, const Panel& change, float decay, int64_t key_dim) {
  ColumnSums sums;
  for (int64_t i = 0; i < key_dim; ++i) {
    Panel& sum = i % 2 == 0 ? sums.even : sums.odd;
    const Vec q = Splat(query[i]), k = Splat(key[i]);
    for (int64_t v = 0; v < kPanelVecs; ++v) {
      float* at = state + i * kPanel + v * kLanes;
      const Vec s = MulAdd(k, change.part[v], Load(at) * decay);
      Store(at, s);
      sum.part[v] = MulAdd(q, s, sum.part[v]);
    }
  }
  return sums.Total();
}

/// A panel of a value head's state: columns [first, first + count) of all rows.
struct StatePanel {
  const StateView& state;
  int64_t sequence, head, key_dim, value_dim;
  int64_t first, count;

  StatePanel(const StateView& states, int64_t sequence_, int64_t head_, int64_t keys, int64_t values, int64_t panel)
      : state(states),
        sequence(sequence_),
        head(head_),
        key_dim(keys),
        value_dim(values),
        first(panel * kPanel),
        count(Least(kPanel, values - first)) {}

  /// Reads the panel into [key_dim, kPanel]; columns past `count` are 0.
  void Read(float* scratch) const {
    __builtin_memset(scratch, 0, static_cast<unsigned long>(key_dim * kPanel) * sizeof(float));
    for (int64_t i = 0; i < key_dim; ++i) ReadState(state, sequence, Place(i), count, scratch + i * kPanel);
  }
  void Write(const float* scratch) const {
    for (int64_t i = 0; i < key_dim; ++i) WriteState(state, sequence, Place(i), count, scratch + i * kPanel);
  }
  /// Returns the byte offset of row i in the state.
  int64_t Place(int64_t i) const { return ((head * key_dim + i) * value_dim + first) * kFloatBytes; }
};

int64_t ConvPanels(const CausalConvParams& p) { return (p.channels + kLanes - 1) / kLanes; }

void CausalConvPanel(const CausalConvParams& p, int64_t sequence, int64_t panel) {
  const int64_t first = panel * kLanes, count = Least(kLanes, p.channels - first), past = p.taps - 1;
  const auto place = [&](int64_t i) { return (i * p.channels + first) * kFloatBytes; };
  Vec weight[kMaxTaps] = {}, in[kMaxTaps] = {};  // index 0 is the oldest
  for (int64_t i = 0; i < p.taps; ++i) weight[i] = LoadUpTo(p.weight + i * p.channels + first, count);
  const Vec bias = p.bias == nullptr ? Vec{} : LoadUpTo(p.bias + first, count);
  for (int64_t i = 0; i < past; ++i) {
    float numbers[kLanes] = {};
    ReadState(p.state, sequence, place(i), count, numbers);
    in[i] = Load(numbers);
  }
  const auto row_of = [&](const void* rows, int64_t t) {
    return LoadUpTo(static_cast<const float*>(rows) + t * p.x_stride + first, count);
  };
  for (int64_t t = p.state.query_start[sequence]; t < p.state.query_start[sequence + 1]; ++t) {
    in[past] = row_of(p.x, t);
    if (p.in_gate != nullptr) in[past] *= row_of(p.in_gate, t);
    Vec y = bias;
    for (int64_t i = 0; i < p.taps; ++i) y = MulAdd(weight[i], in[i], y);
    if (p.silu) y *= Sigmoid(y);
    if (p.out_gate != nullptr) y *= row_of(p.out_gate, t);
    StoreUpTo(static_cast<float*>(p.out) + t * p.out_stride + first, y, count);
    for (int64_t i = 0; i < past; ++i) in[i] = in[i + 1];
  }
  for (int64_t i = 0; i < past; ++i) {
    float numbers[kLanes];
    Store(numbers, in[i]);
    WriteState(p.state, sequence, place(i), count, numbers);
  }
}

int64_t StatePanels(int64_t value_dim) { return (value_dim + kPanel - 1) / kPanel; }

int64_t StateScratch(int64_t key_dim) { return key_dim * kPanel; }

void GatedDeltaPanel(const GatedDeltaParams& p, int64_t sequence, int64_t head, int64_t panel, float* scratch) {
  const StatePanel place(p.state, sequence, head, p.key_dim, p.value_dim, panel);
  const int64_t key_head = head / (p.value_heads / p.key_heads);
  place.Read(scratch);
  for (int64_t t = p.state.query_start[sequence]; t < p.state.query_start[sequence + 1]; ++t) {
    const float* query = static_cast<const float*>(p.queries) + t * p.row_stride + key_head * p.key_dim;
    const float* key = static_cast<const float*>(p.keys) + t * p.row_stride + key_head * p.key_dim;
    const float* value = static_cast<const float*>(p.values) + t * p.row_stride + head * p.value_dim + place.first;
    const float beta = static_cast<const float*>(p.betas)[t * p.gate_stride + head];
    const float decay = static_cast<const float*>(p.decays)[t * p.gate_stride + head];
    Panel change = Panel::Of(value, place.count);
    const Panel recalled = Recall(scratch, key, p.key_dim);
    for (int64_t v = 0; v < kPanelVecs; ++v) change.part[v] = (change.part[v] - recalled.part[v] * decay) * beta;
    const Panel out = Learn(scratch, query, key, change, decay, p.key_dim);
    out.StoreTo(static_cast<float*>(p.out) + (t * p.value_heads + head) * p.value_dim + place.first, place.count);
  }
  place.Write(scratch);
}

void StateSpacePanel(const StateSpaceParams& p, int64_t sequence, int64_t head, int64_t panel, float* scratch) {
  const StatePanel place(p.state, sequence, head, p.key_dim, p.value_dim, panel);
  const int64_t key_at = p.key_head(head) * p.key_dim;
  place.Read(scratch);
  for (int64_t t = p.state.query_start[sequence]; t < p.state.query_start[sequence + 1]; ++t) {
    const float* query = static_cast<const float*>(p.queries) + t * p.row_stride + key_at;
    const float* key = static_cast<const float*>(p.keys) + t * p.row_stride + key_at;
    const float step = static_cast<const float*>(p.steps)[t * p.row_stride + head];
    const Panel value = Panel::Of(
        static_cast<const float*>(p.values) + t * p.row_stride + head * p.value_dim + place.first, place.count);
    Panel change = value;
    for (int64_t v = 0; v < kPanelVecs; ++v) change.part[v] *= step;
    Panel out = Learn(scratch, query, key, change, Exp1(-p.rate[head] * step), p.key_dim);
    for (int64_t v = 0; v < kPanelVecs; ++v) out.part[v] = MulAdd(Splat(p.skip[head]), value.part[v], out.part[v]);
    out.StoreTo(static_cast<float*>(p.out) + (t * p.value_heads + head) * p.value_dim + place.first, place.count);
  }
  place.Write(scratch);
}

void GatedNormRows(const GatedNormParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* heads = static_cast<float*>(p.heads) + row * p.num_heads * p.head_dim;
    HeadNormRows({heads, p.weight, 1, p.num_heads, p.head_dim, p.num_heads * p.head_dim, p.epsilon}, 0, 1);
    const float* gates = static_cast<const float*>(p.gates) + row * p.gate_stride;
    for (int64_t i = 0; i < p.num_heads * p.head_dim; i += kLanes) {
      const int64_t count = p.num_heads * p.head_dim - i;
      const Vec gate = LoadUpTo(gates + i, count);
      StoreUpTo(heads + i, LoadUpTo(heads + i, count) * gate * Sigmoid(gate), count);
    }
  }
}

void GateSquaresRows(const GateSquaresParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* numbers = static_cast<float*>(p.rows) + row * p.columns;
    const float* gates = p.gates == nullptr ? nullptr : static_cast<const float*>(p.gates) + row * p.gate_stride;
    for (int64_t group = 0; group < p.num_groups; ++group) {
      Vec squares = {};
      for (int64_t i = p.begin(group), end = p.begin(group + 1); i < end; i += kLanes) {
        Vec x = LoadUpTo(numbers + i, end - i);
        if (gates != nullptr) {
          const Vec gate = LoadUpTo(gates + i, end - i);
          x = x * gate * Sigmoid(gate);
          StoreUpTo(numbers + i, x, end - i);
        }
        squares = MulAdd(x, x, squares);
      }
      p.squares[row * p.num_groups + group] = Sum(squares);
    }
  }
}

void SigmoidGateRows(const SigmoidGateParams& p, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* numbers = static_cast<float*>(p.rows) + row * p.columns;
    const float* gates = static_cast<const float*>(p.gates) + row * p.gate_stride;
    for (int64_t head = 0; p.columns_per_gate > 1 && head < p.columns / p.columns_per_gate; ++head) {
      const Vec factor = Sigmoid(Splat(gates[head]));
      float* mine = numbers + head * p.columns_per_gate;
      for (int64_t i = 0; i < p.columns_per_gate; i += kLanes) {
        const int64_t count = p.columns_per_gate - i;
        StoreUpTo(mine + i, LoadUpTo(mine + i, count) * factor, count);
      }
    }
    for (int64_t i = 0; p.columns_per_gate == 1 && i < p.columns; i += kLanes) {
      const int64_t count = p.columns - i;
      StoreUpTo(numbers + i, LoadUpTo(numbers + i, count) * Sigmoid(LoadUpTo(gates + i, count)), count);
    }
  }
}

}  // namespace

const RecurrentTable& Recurrent() {
  static const RecurrentTable table = {ConvPanels,    CausalConvPanel, StatePanels,
                                       StateScratch,  GatedDeltaPanel, StateSpacePanel,
                                       GatedNormRows, GateSquaresRows, SigmoidGateRows};
  return table;
}

}  // namespace quire::kernels::QUIRE_ISA
