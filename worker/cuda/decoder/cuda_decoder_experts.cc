// CudaDecoder's operations for mixtures of experts.
#include "kernels/activation.h"
#include "kernels/add_rows.h"
#include "kernels/combine_experts.h"
#include "kernels/cuda/experts/expert_matmul.h"
#include "kernels/gate_mul.h"
#include "kernels/rms_norm.h"
#include "kernels/route_experts.h"
#include "worker/cuda/decoder/cuda_decoder.h"
#include "worker/model/weight_slice.h"

namespace quire {

void CudaDecoder::NormRoute(int64_t layer) {
  const Mixture& m = spec_.mixture;
  const CudaLayerWeights& w = weights(layer);
  const CudaExpertActivations& e = memory_.experts;
  experts_in_ = m.normed_apart ? Normed(w.norms_apart.router, nullptr) : Normed(w.mlp_norm, w.mlp_norm_bias);
  GemmParams product = Product(experts_in_, spec_.hidden_size, w.router, e.logits, e.router_width, shape_.num_rows);
  product.float_result = true;
  products_.Run(product);
  if (m.router_bias) {
    kernels::AddRows(device_.stream(), {NumberType::kF32, e.logits, memory_.router_bias + layer * e.router_width,
                                        shape_.num_rows, e.router_width, e.router_width, 0});
  }
  kernels::RouteExpertsParams routing = RoutingOf(m);
  routing.logits = e.logits;
  routing.logits_stride = e.router_width;
  routing.correction = m.correction_bias ? memory_.correction + layer * m.experts : nullptr;
  routing.expert_scales = m.expert_scales ? memory_.expert_scales + layer * m.experts : nullptr;
  routing.experts = e.chosen;
  routing.weights = e.weights;
  routing.num_tokens = shape_.num_rows;
  kernels::RouteExperts(device_.stream(), routing);
  kernels::GroupByExpert(device_.stream(), {e.chosen, shape_.num_rows * m.experts_per_token, e.experts.size(), e.start,
                                            e.pair_of_row, e.row_of_pair, e.experts.begin});
}

void CudaDecoder::AddExperts(int64_t layer) {
  const CudaExpertActivations& e = memory_.experts;
  if (spec_.mixture.normed_apart) return AddExpertsNormedApart(layer);
  MultiplyExperts(layer);
  if (e.shared != nullptr) MultiplyShared(layer);
  CombineExperts(e.shared, memory_.activations.delta);
  if (const void* norm = weights(layer).mlp_after_norm; norm != nullptr)
    return AddNormOfDelta(norm, ScaleAfterMlp(layer));
  pending_ = memory_.activations.delta;
}

void CudaDecoder::AddExpertsNormedApart(int64_t layer) {
  const CudaLayerWeights& w = weights(layer);
  const Activations& a = memory_.activations;
  const int64_t rows = shape_.num_rows, count = rows * a.hidden;
  const auto epsilon = static_cast<float>(spec_.norm_epsilon);
  void* shared = memory_.experts.shared;
  void* chosen = static_cast<std::byte*>(shared) + count * ByteSize(sizes_.dtype);
  experts_in_ = Normed(w.mlp_norm, w.mlp_norm_bias);
  MultiplyShared(layer);
  experts_in_ = Normed(w.norms_apart.experts, nullptr);
  MultiplyExperts(layer);
  CombineExperts(nullptr, chosen);
  if (collective_ != nullptr) collective_->AllReduceSum(shared, 2 * count, sizes_.dtype, device_.stream().handle);
  const auto norm = [&](void* from, const void* weight, void* to, bool adds, float scale) {
    kernels::RmsNorm(device_.stream(), {sizes_.dtype, from, nullptr, weight, to, rows, a.hidden, epsilon, adds, scale});
  };
  norm(shared, w.norms_apart.shared_after, a.delta, false, 1);
  norm(chosen, w.norms_apart.experts_after, a.delta, true, 1);
  norm(a.delta, w.mlp_after_norm, a.residual, true, ScaleAfterMlp(layer));
}

void CudaDecoder::CombineExperts(const void* shared, void* out) {
  const Mixture& m = spec_.mixture;
  const CudaExpertActivations& e = memory_.experts;
  kernels::CombineExperts(device_.stream(), {.dtype = sizes_.dtype,
                                             .rows = e.out,
                                             .row_of_pair = e.row_of_pair,
                                             .weights = e.weights,
                                             .shared = shared,
                                             .shared_gate = m.shared_gate ? e.logits + m.experts : nullptr,
                                             .shared_gate_stride = e.router_width,
                                             .out = out,
                                             .num_tokens = shape_.num_rows,
                                             .experts_per_token = m.experts_per_token,
                                             .columns = spec_.hidden_size,
                                             .scale = static_cast<float>(spec_.residual_scale)});
}

void CudaDecoder::ActivateExperts(const void* gate_up, void* activated, int64_t rows, int64_t width, float limit) {
  const kernels::Activation activation = AsKernel(spec_.activation);
  if (spec_.gated_mlp) {
    kernels::GateMul(device_.stream(), {sizes_.dtype, gate_up, activated, rows, width, true, activation, limit});
  } else {
    kernels::Activate(device_.stream(), {sizes_.dtype, activated, nullptr, rows, width, activation});
  }
}

void CudaDecoder::MultiplyExperts(int64_t layer) {
  const Mixture& m = spec_.mixture;
  const CudaLayerWeights& w = weights(layer);
  const CudaExpertActivations& e = memory_.experts;
  const int64_t hidden = spec_.hidden_size, rows = shape_.num_rows * m.experts_per_token;
  // If experts are split by columns, only rank 0 adds the bias of the second products, so that the sum over the ranks
  // contains it once.
  const bool adds_bias = collective_ == nullptr || e.whole_experts || collective_->rank() == 0;
  kernels::CudaExpertMatmulParams product = {.dtype = sizes_.dtype,
                                             .x = experts_in_,
                                             .pair_of_row = e.pair_of_row,
                                             .pairs_per_x_row = m.experts_per_token,
                                             .start = e.start,
                                             .weight = w.experts_in.data,
                                             .bias = w.experts_in_bias,
                                             .y = spec_.gated_mlp ? e.gate_up : e.activated,
                                             .num_rows = rows,
                                             .num_experts = e.experts.size(),
                                             .n = spec_.gated_mlp ? 2 * e.width : e.width,
                                             .k = hidden,
                                             .quantized = w.experts_in.quantized};
  kernels::ExpertMatmul(device_.stream(), product);
  ActivateExperts(e.gate_up, e.activated, e.width == 0 ? 0 : rows, e.width, static_cast<float>(spec_.gate_limit));
  product.x = e.activated;
  product.pair_of_row = nullptr;
  product.weight = w.experts_down.data;
  product.quantized = w.experts_down.quantized;
  product.bias = adds_bias ? w.experts_down_bias : nullptr;
  product.y = e.out;
  product.n = hidden;
  product.k = e.width;  // with k = 0 the result is zeros plus the bias
  kernels::ExpertMatmul(device_.stream(), product);
}

void CudaDecoder::MultiplyShared(int64_t layer) {
  const CudaLayerWeights& w = weights(layer);
  const CudaExpertActivations& e = memory_.experts;
  const int64_t hidden = spec_.hidden_size, rows = shape_.num_rows;
  if (e.shared_width == 0) return device_.SetZero(e.shared, rows * hidden * ByteSize(sizes_.dtype));
  const bool gated = spec_.gated_mlp;
  products_.Run(Product(experts_in_, hidden, w.shared_in, gated ? e.shared_gate_up : e.shared_activated,
                        gated ? 2 * e.shared_width : e.shared_width, rows));
  ActivateExperts(e.shared_gate_up, e.shared_activated, rows, e.shared_width, 0);
  products_.Run(Product(e.shared_activated, e.shared_width, w.shared_down, e.shared, hidden, rows));
}

}  // namespace quire
