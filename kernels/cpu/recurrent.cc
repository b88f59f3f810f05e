// Ops of layers that keep a state, on the CPU: checks, what is computed once for all parts, and the partition.
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/isa/recurrent_table.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

namespace {

/// Bytes of the states' blocks must hold what an op keeps.
bool Holds(const StateView& state, int64_t bytes) {
  return state.offset >= 0 && state.offset + bytes <= state.blocks_per_state * state.block_stride;
}

/// Of one token's value heads: b becomes beta, and a the factor by which the state decays.
void OpenGates(const GatedDeltaParams& p, int64_t t) {
  float* betas = static_cast<float*>(p.betas) + t * p.gate_stride;
  float* decays = static_cast<float*>(p.decays) + t * p.gate_stride;
  for (int64_t h = 0; h < p.value_heads; ++h) {
    betas[h] = 1 / (1 + std::exp(-betas[h]));
    const float x = decays[h] + p.bias[h];
    const float softplus = x > 20 ? x : std::log1p(std::exp(x));  // beyond 20 they are the same in fp32
    decays[h] = std::exp(-p.rate[h] * softplus);
  }
}

}  // namespace

void CausalConv(const CpuStream& stream, const CausalConvParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && p.taps >= 2 && p.taps <= kMaxTaps);
  QUIRE_KERNEL_CHECK(Holds(p.state, CausalConvStateBytes(p.channels, p.taps)));
  const RecurrentTable& table = ActiveRecurrentTable();
  const int64_t panels = table.conv_panels(p);
  stream.pool().ForEach(p.state.num_sequences * panels,
                        [&](int64_t i, int) { table.causal_conv(p, i / panels, i % panels); });
}

void GatedDelta(const CpuStream& stream, const GatedDeltaParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  if (p.value_heads == 0) return;
  QUIRE_KERNEL_CHECK(p.key_heads > 0 && p.value_heads % p.key_heads == 0);
  QUIRE_KERNEL_CHECK(Holds(p.state, GatedDeltaStateBytes(p.value_heads, p.key_dim, p.value_dim)));
  const RecurrentTable& table = ActiveRecurrentTable();
  const auto dim = static_cast<float>(p.key_dim);
  // x / sqrt(|x|^2 + e) is what a norm of the mean of squares gives, with e / dim, times 1 / sqrt(dim).
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
  const int64_t panels = table.delta_panels(p), scratch = table.delta_scratch(p);
  stream.pool().ForEach(p.state.num_sequences * p.value_heads * panels, [&](int64_t i, int) {
    const int64_t panel = i % panels, head = i / panels % p.value_heads;
    thread_local std::vector<float> part;
    if (static_cast<int64_t>(part.size()) < scratch) part.resize(static_cast<size_t>(scratch));
    table.gated_delta(p, i / panels / p.value_heads, head, panel, part.data());
  });
}

void GatedNorm(const CpuStream& stream, const GatedNormParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveRecurrentTable().gated_norm(p, begin, end); });
}

void SigmoidGate(const CpuStream& stream, const SigmoidGateParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveRecurrentTable().sigmoid_gate(p, begin, end); });
}

}  // namespace quire::kernels
