// CpuDecoder's operations for mixtures of experts.
#include <algorithm>

#include "kernels/activation.h"
#include "kernels/combine_experts.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate_mul.h"
#include "kernels/rms_norm.h"
#include "kernels/route_experts.h"
#include "kernels/scale_rows.h"
#include "worker/cpu/buffer_list.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

namespace {

/// Returns the number of columns of the router's product: one logit per expert, plus one for the shared expert's gate.
int64_t RouterWidth(const Mixture& mixture) { return mixture.experts + (mixture.shared_gate ? 1 : 0); }

/// Applies the activation function to the experts' first products. For gated experts, `in` holds gates and ups. Without
/// gates, `out` already holds the products.
void Activate(const kernels::CpuStream& stream, const ModelSpec& spec, const std::vector<float>& in,
              std::vector<float>& out, int64_t rows, int64_t columns) {
  const kernels::Activation activation = AsKernel(spec.activation);
  if (columns == 0) return;
  if (spec.gated_mlp) {
    kernels::GateMul(stream, {NumberType::kF32, in.data(), out.data(), rows, columns, false, activation,
                              static_cast<float>(spec.gate_limit)});
  } else {
    kernels::Activate(stream, {NumberType::kF32, out.data(), nullptr, rows, columns, activation});
  }
}

}  // namespace

template <class Make>
void ExpertActivations::ForEach(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens, const Make& make) {
  if (spec.num_mixture_layers() == 0) return;
  const Mixture& m = spec.mixture;
  const int64_t pairs = max_tokens * m.experts_per_token, columns = shard.expert_mlp.size();
  const int64_t gates = spec.gated_mlp ? 1 : 0;
  make(logits, max_tokens * RouterWidth(m));
  make(chosen, pairs);
  make(weights, pairs);
  if (m.weighs_inputs) make(scores, pairs);
  make(start, shard.experts.size() + 1);
  make(pair_of_row, pairs);
  make(row_of_pair, pairs);
  make(gate_up, gates * pairs * 2 * columns);
  make(activated, pairs * columns);
  make(out, pairs * spec.hidden_size);
  if (m.shared_intermediate_size > 0) {
    make(shared_gate_up, gates * max_tokens * 2 * shard.shared_mlp.size());
    make(shared_activated, max_tokens * shard.shared_mlp.size());
    make(shared, m.normed_apart ? 0 : max_tokens * spec.hidden_size);
  }
  if (!m.normed_apart) return;
  make(terms, 2 * max_tokens * spec.hidden_size);
  make(sums, 2 * max_tokens * spec.hidden_size);
}

ExpertActivations::ExpertActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens) {
  ForEach(spec, shard, max_tokens, ResizeBuffer);
  if (spec.mixture.weighs_inputs) std::ranges::fill(weights, 1.0f);
}

int64_t ExpertActivations::Bytes(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens) {
  BufferBytes bytes;
  ExpertActivations().ForEach(spec, shard, max_tokens, bytes.counter());
  return bytes.sum();
}

void CpuDecoder::NormRoute(int64_t layer) {
  const Mixture& m = spec_.mixture;
  const MixtureWeights& w = weights(layer).mixture;
  ExpertActivations& a = experts_;
  const int64_t width = RouterWidth(m);
  experts_in_ = Normed(m.normed_apart ? w.router_norm : weights(layer).mlp_norm);
  Matmul(experts_in_, w.router, a.logits.data(), width, tokens_, kernels::Activations::kInt16);
  AddAdapters(WeightPlace::kRouter, layer, experts_in_, spec_.hidden_size, AdaptersOf({0, tokens_}), a.logits.data(),
              width);
  if (!w.router_bias.empty()) AddBias(w.router_bias, a.logits.data(), tokens_, width);
  kernels::RouteExpertsParams routing = RoutingOf(m);
  routing.logits = a.logits.data();
  routing.logits_stride = width;
  routing.correction = DataOf(w.correction);
  routing.expert_scales = DataOf(w.scales);
  routing.experts = a.chosen.data();
  routing.weights = m.weighs_inputs ? a.scores.data() : a.weights.data();
  routing.num_tokens = tokens_;
  kernels::RouteExperts(stream_, routing);
  kernels::GroupByExpert(stream_, {a.chosen.data(), tokens_ * m.experts_per_token, shard_.experts.size(),
                                   a.start.data(), a.pair_of_row.data(), a.row_of_pair.data(), shard_.experts.begin});
}

void CpuDecoder::AddExperts(int64_t layer) {
  const Mixture& m = spec_.mixture;
  ExpertActivations& a = experts_;
  if (m.normed_apart) return AddExpertsNormedApart(layer);
  MultiplyExperts(layer);
  if (!weights(layer).mixture.shared_in.empty()) MultiplyShared(layer, a.shared.data());
  CombineExperts(DataOf(a.shared), buffers_.delta.data());
  AddToResidual(weights(layer).mlp_after_norm, ScaleAfterMlp(layer));
}

void CpuDecoder::AddExpertsNormedApart(int64_t layer) {
  const MixtureWeights& w = weights(layer).mixture;
  ExpertActivations& a = experts_;
  const int64_t hidden = spec_.hidden_size, count = tokens_ * hidden;
  const auto epsilon = static_cast<float>(spec_.norm_epsilon);
  experts_in_ = Normed(weights(layer).mlp_norm);
  MultiplyShared(layer, a.terms.data());
  experts_in_ = Normed(w.experts_norm);
  MultiplyExperts(layer);
  CombineExperts(nullptr, a.terms.data() + count);
  float* sums = a.terms.data();
  if (collective_.size() > 1) {
    sums = a.sums.data();
    std::fill_n(sums, 2 * count, 0.0f);
    const auto both = static_cast<size_t>(2 * count);
    collective_.AllReduceAdd({a.terms.data(), both}, {sums, both});
  }
  float* delta = buffers_.delta.data();
  kernels::RmsNorm(stream_,
                   {NumberType::kF32, sums, nullptr, w.shared_after_norm.data(), delta, tokens_, hidden, epsilon});
  kernels::RmsNorm(stream_, {NumberType::kF32, sums + count, nullptr, w.experts_after_norm.data(), delta, tokens_,
                             hidden, epsilon, true});
  kernels::RmsNorm(stream_, {NumberType::kF32, delta, nullptr, weights(layer).mlp_after_norm.data(),
                             buffers_.residual.data(), tokens_, hidden, epsilon, true, ScaleAfterMlp(layer)});
}

void CpuDecoder::MultiplyExperts(int64_t layer) {
  const Mixture& m = spec_.mixture;
  const MixtureWeights& w = weights(layer).mixture;
  ExpertActivations& a = experts_;
  const int64_t columns = shard_.expert_mlp.size(), experts = shard_.experts.size();
  if (experts == 0) return;
  // If experts are split by columns, only rank 0 adds the bias of the second products, so that the sum over the ranks
  // contains it once.
  const bool adds_bias = shard_.whole_experts || collective_.rank() == 0;
  std::vector<float>& in = spec_.gated_mlp ? a.gate_up : a.activated;
  kernels::ExpertMatmul(stream_, {.x = experts_in_,
                                  .x_stride = spec_.hidden_size,
                                  .pair_of_row = a.pair_of_row.data(),
                                  .pairs_per_x_row = m.experts_per_token,
                                  .start = a.start.data(),
                                  .weights = w.in.data(),
                                  .num_experts = experts,
                                  .num_weights = spec_.gated_mlp ? 2 : 1,
                                  .bias = DataOf(w.in_bias),
                                  .y = in.data(),
                                  .activations = activations_});
  AddExpertAdapters(WeightPlace::kExpertsIn, layer, experts_in_, spec_.hidden_size, true, in.data(),
                    spec_.gated_mlp ? 2 * columns : columns);
  if (m.weighs_inputs)
    kernels::ScaleRows(stream_, {in.data(), a.pair_of_row.data(), a.scores.data(), a.start.back(),
                                 spec_.gated_mlp ? 2 * columns : columns});
  Activate(stream_, spec_, in, a.activated, a.start.back(), columns);
  kernels::ExpertMatmul(stream_, {.x = a.activated.data(),
                                  .x_stride = columns,
                                  .pair_of_row = nullptr,
                                  .pairs_per_x_row = 1,
                                  .start = a.start.data(),
                                  .weights = w.down.data(),
                                  .num_experts = experts,
                                  .num_weights = 1,
                                  .bias = adds_bias ? DataOf(w.down_bias) : nullptr,
                                  .y = a.out.data(),
                                  .activations = activations_});
  AddExpertAdapters(WeightPlace::kExpertsDown, layer, a.activated.data(), columns, false, a.out.data(),
                    spec_.hidden_size);
}

void CpuDecoder::CombineExperts(const float* shared, float* out) {
  const Mixture& m = spec_.mixture;
  const ExpertActivations& a = experts_;
  kernels::CombineExperts(stream_, {.dtype = NumberType::kF32,
                                    .rows = a.out.data(),
                                    .row_of_pair = a.row_of_pair.data(),
                                    .weights = a.weights.data(),
                                    .shared = shared,
                                    .shared_gate = m.shared_gate ? a.logits.data() + m.experts : nullptr,
                                    .shared_gate_stride = RouterWidth(m),
                                    .out = out,
                                    .num_tokens = tokens_,
                                    .experts_per_token = m.experts_per_token,
                                    .columns = spec_.hidden_size});
}

void CpuDecoder::MultiplyShared(int64_t layer, float* out) {
  const MixtureWeights& w = weights(layer).mixture;
  ExpertActivations& a = experts_;
  const int64_t columns = shard_.shared_mlp.size(), width = spec_.gated_mlp ? 2 * columns : columns;
  const std::span<const int32_t> adapters = AdaptersOf({0, tokens_});
  std::vector<float>& in = spec_.gated_mlp ? a.shared_gate_up : a.shared_activated;
  Matmul(experts_in_, w.shared_in, in.data(), width, tokens_, activations_);
  AddAdapters(WeightPlace::kSharedIn, layer, experts_in_, spec_.hidden_size, adapters, in.data(), width);
  Activate(stream_, spec_, in, a.shared_activated, tokens_, columns);
  Matmul(a.shared_activated.data(), w.shared_down, out, spec_.hidden_size, tokens_, activations_);
  AddAdapters(WeightPlace::kSharedDown, layer, a.shared_activated.data(), columns, adapters, out, spec_.hidden_size);
}

}  // namespace quire
