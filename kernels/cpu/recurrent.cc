// The CPU ops of layers with a recurrent state. Each op checks its parameters, does the work that all parts share, and
// splits the other work into parts.
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/isa/recurrent_table.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

namespace {

/// Returns log(1 + exp(x)).
float Softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }  // beyond 20 both values are equal in fp32

/// Replaces b by beta, and a by the state's decay factor, for all value heads of token t.
void OpenGates(const GatedDeltaParams& p, int64_t t) {
  float* betas = static_cast<float*>(p.betas) + t * p.gate_stride;
  float* decays = static_cast<float*>(p.decays) + t * p.gate_stride;
  for (int64_t h = 0; h < p.value_heads; ++h) {
    betas[h] = 1 / (1 + std::exp(-betas[h]));
    decays[h] = std::exp(-p.rate[h] * Softplus(decays[h] + p.bias[h]));
  }
}

/// Calls compute(sequence, value head, panel, scratch) for every panel of the step, in parallel.
template <class Compute>
void ForPanels(const CpuStream& stream, const StateView& state, int64_t value_heads, int64_t key_dim, int64_t value_dim,
               const Compute& compute) {
  const RecurrentTable& table = ActiveRecurrentTable();
  const int64_t panels = table.state_panels(value_dim), scratch = table.state_scratch(key_dim);
  stream.pool().ForEach(state.num_sequences * value_heads * panels, [&](int64_t i, int) {
    thread_local std::vector<float> part;
    if (static_cast<int64_t>(part.size()) < scratch) part.resize(static_cast<size_t>(scratch));
    compute(i / panels / value_heads, i / panels % value_heads, i % panels, part.data());
  });
}

}  // namespace

void CausalConv(const CpuStream& stream, const CausalConvParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && p.taps >= 2 && p.taps <= kMaxTaps);
  QUIRE_KERNEL_CHECK(p.state.Holds(CausalConvStateBytes(p.channels, p.taps)));
  const RecurrentTable& table = ActiveRecurrentTable();
  const int64_t panels = table.conv_panels(p);
  stream.pool().ForEach(p.state.num_sequences * panels,
                        [&](int64_t i, int) { table.causal_conv(p, i / panels, i % panels); });
}

void GatedDelta(const CpuStream& stream, const GatedDeltaParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  if (p.value_heads == 0) return;
  QUIRE_KERNEL_CHECK(p.key_heads > 0 && p.value_heads % p.key_heads == 0);
  QUIRE_KERNEL_CHECK(p.state.Holds(HeadStateBytes(p.value_heads, p.key_dim, p.value_dim)));
  const auto dim = static_cast<float>(p.key_dim);
  // RmsNorm with epsilon e / dim, times 1 / sqrt(dim), equals x / sqrt(|x|^2 + e).
  thread_local std::vector<float> of_keys, of_queries;
  of_keys.assign(static_cast<size_t>(p.key_dim), 1 / std::sqrt(dim));
  of_queries.assign(static_cast<size_t>(p.key_dim), 1 / dim);
  const float* const key_weight = of_keys.data();
  const float* const query_weight = of_queries.data();
  stream.pool().ForRange(p.state.query_start[p.state.num_sequences], 1, [&](int64_t begin, int64_t end, int) {
    for (const auto& [rows, weight] : {std::pair{p.queries, query_weight}, {p.keys, key_weight}}) {
      ActiveTable().head_norm(
          {static_cast<float*>(rows), weight, end, p.key_heads, p.key_dim, p.row_stride, 1e-6f / dim}, begin, end);
    }
    for (int64_t t = begin; t < end; ++t) OpenGates(p, t);
  });
  ForPanels(stream, p.state, p.value_heads, p.key_dim, p.value_dim,
            [&](int64_t sequence, int64_t head, int64_t panel, float* scratch) {
              ActiveRecurrentTable().gated_delta(p, sequence, head, panel, scratch);
            });
}

void StateSpace(const CpuStream& stream, const StateSpaceParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && p.heads_per_key > 0 && p.first_head >= 0);
  if (p.value_heads == 0) return;
  QUIRE_KERNEL_CHECK(p.state.Holds(HeadStateBytes(p.value_heads, p.key_dim, p.value_dim)));
  stream.pool().ForRange(p.state.query_start[p.state.num_sequences], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      float* steps = static_cast<float*>(p.steps) + t * p.row_stride;
      for (int64_t h = 0; h < p.value_heads; ++h) steps[h] = Softplus(steps[h] + p.bias[h]);
    }
  });
  ForPanels(stream, p.state, p.value_heads, p.key_dim, p.value_dim,
            [&](int64_t sequence, int64_t head, int64_t panel, float* scratch) {
              ActiveRecurrentTable().state_space(p, sequence, head, panel, scratch);
            });
}

void GatedNorm(const CpuStream& stream, const GatedNormParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveRecurrentTable().gated_norm(p, begin, end); });
}

void GateSquares(const CpuStream& stream, const GateSquaresParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && p.first >= 0 && p.begin(p.num_groups) == p.columns);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveRecurrentTable().gate_squares(p, begin, end); });
}

void SigmoidGate(const CpuStream& stream, const SigmoidGateParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && p.columns_per_gate > 0 && p.columns % p.columns_per_gate == 0);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveRecurrentTable().sigmoid_gate(p, begin, end); });
}

}  // namespace quire::kernels
