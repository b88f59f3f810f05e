// Measures which way of computing a step's products is fastest.
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "worker/cuda/decoder/cuda_decoder.h"
#include "worker/cuda/device/timing.h"

namespace quire {

namespace {

/// The weights of all layers, grouped by the shape (rows, columns) of their product.
using ProductsOfLayers = std::map<std::pair<int64_t, int64_t>, std::vector<const void*>>;

}  // namespace

void CudaDecoder::Tune(int64_t rows) {
  if (!tuned_.insert(rows).second) return;
  device_.Synchronize();  // activations may be in use
  const Activations& a = memory_.activations;
  const CudaMixerActivations& m = memory_.mixers;
  ProductsOfLayers qkv, attention_out, mixer_in, mixer_out, mlp_in, down;
  // There is only one way of computing quantised products, so they need no tuning.
  const auto add = [](ProductsOfLayers& products, int64_t rows_of, int64_t cols, const DeviceMatrix& weight) {
    if (!weight.quantized) products[{rows_of, cols}].push_back(weight.data);
  };
  for (int64_t i = 0; i < spec_.num_layers(); ++i) {
    const CudaLayerWeights& w = weights(i);
    if (LayerOf(i).has_attention()) {
      if (w.qkv.size() == 1) add(qkv, w.qkv.front().rows, a.hidden, w.qkv.front().matrix);
      add(attention_out, a.hidden, OutWidth(i), w.attention_out);
    } else if (LayerOf(i).has_state() && m.in_stride > 0) {
      mixer_in[{m.in_stride, a.hidden}].push_back(w.mixer.in);
      mixer_out[{a.hidden, m.shape.out_width}].push_back(w.mixer.out);
    }
    if (w.mlp_in.data == nullptr || MlpWidth(i) == 0) continue;  // a mixture, or no MLP columns on this rank
    add(mlp_in, spec_.gated_mlp ? 2 * MlpWidth(i) : MlpWidth(i), a.hidden, w.mlp_in);
    add(down, a.hidden, MlpWidth(i), w.down);
  }
  const auto tune = [&](const ProductsOfLayers& products, const void* x, void* y) {
    for (const auto& [shape, weights] : products) {
      GemmParams product = Product(x, shape.second, nullptr, y, shape.first, rows);
      product.y_stride = (shape.first + 7) / 8 * 8;
      products_.Tune(product, weights);
    }
  };
  tune(qkv, a.normed, a.qkv);
  tune(attention_out, a.attended, a.delta);
  tune(mixer_in, a.normed, m.in);
  tune(mixer_out, m.out, a.delta);
  tune(mlp_in, a.normed, spec_.gated_mlp ? a.gate_up : a.activated);
  tune(down, a.activated, a.delta);
  if (rows <= sizes_.max_draws && sizes_.shard.vocab.size() > 0) {
    GemmParams logits = Product(a.normed, a.hidden, nullptr, a.logits, sizes_.shard.vocab.size(), rows);
    logits.y_stride = a.logits_width;
    logits.float_result = true;
    products_.Tune(logits, std::array<const void*, 1>{weights_.head});
  }
  if (!CanFuse(rows)) return;
  // Times all layers, fused and not fused, without attention, which takes the same time either way.
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
