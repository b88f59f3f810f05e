// How the products of a step are computed, by measurement.
#include <vector>

#include "worker/cuda/cuda_decoder.h"
#include "worker/cuda/timing.h"

namespace quire {

namespace {

std::vector<const void*> Pick(const std::vector<CudaLayerWeights>& layers, void* CudaLayerWeights::*which) {
  std::vector<const void*> weights;
  for (const CudaLayerWeights& layer : layers) {
    if (layer.*which != nullptr) weights.push_back(layer.*which);  // layers with a mixture have no MLP
  }
  return weights;
}

}  // namespace

void CudaDecoder::Tune(int64_t rows) {
  if (!tuned_.insert(rows).second) return;
  device_.Synchronize();  // activations may be in use
  const Activations& a = memory_.activations;
  const auto& layers = weights_.layers;
  products_.Tune(Product(a.normed, a.hidden, nullptr, a.qkv, a.qkv_width, rows), Pick(layers, &CudaLayerWeights::qkv));
  products_.Tune(Product(a.attended, a.heads_width, nullptr, a.delta, a.hidden, rows),
                 Pick(layers, &CudaLayerWeights::attention_out));
  if (a.mlp_width > 0) {
    void* out = spec_.gated_mlp ? a.gate_up : a.activated;
    const int64_t width = spec_.gated_mlp ? 2 * a.mlp_width : a.mlp_width;
    products_.Tune(Product(a.normed, a.hidden, nullptr, out, width, rows), Pick(layers, &CudaLayerWeights::mlp_in));
    products_.Tune(Product(a.activated, a.mlp_width, nullptr, a.delta, a.hidden, rows),
                   Pick(layers, &CudaLayerWeights::down));
  }
  if (rows <= sizes_.max_draws && sizes_.shard.vocab.size() > 0) {
    GemmParams logits = Product(a.normed, a.hidden, nullptr, a.logits, sizes_.shard.vocab.size(), rows);
    logits.y_stride = a.logits_width;
    logits.float_result = true;
    const void* weights[] = {weights_.head};
    products_.Tune(logits, weights);
  }
  if (!CanFuse(rows)) return;
  // All layers without their attention, which both ways share.
  shape_ = {};
  shape_.num_rows = rows;
  const auto seconds = [&](bool fused) {
    fused_ = fused;
    pending_ = fused ? nullptr : a.delta;
    return *MedianSeconds(device_, [&] {
      for (int64_t layer = 0; layer < spec_.num_layers(); ++layer) {
        NormQkv(layer);
        AddAttention(layer);
        NormMlpIn(layer);
        AddMlp(layer);
      }
      return true;
    });
  };
  fused_of_[rows] = seconds(true) <= seconds(false);
}

}  // namespace quire
