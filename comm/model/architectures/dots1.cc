// dots.llm1 normalizes each query head and key head. Dense layers come first, then mixtures of experts with shared
// experts and with routers like GLM-4.5's. The last layers may have a sliding window.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

ModelSpec Dots1FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.qk_norm = QkNorm::kHeads;
  const int64_t window = WindowOf(config, 4096);
  const int64_t last = config.Count("max_window_layers", 62);
  ReadKinds(config, spec, window, [&](int64_t layer) { return layer >= last; });
  config.At("n_shared_experts");
  config.Has("scoring_func");  // accepted and ignored, as in HF, whose class uses sigmoids; files say noaux_tc
  SetMixtureFrom(config.Count("first_k_dense_replace", 0), spec, CorrectedMixtureFromHf(config, false), config.path());
  return spec;
}

ModelSpec Dots1FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qk_norm = QkNorm::kHeads;
  SetMixtureFrom(config.Count("leading_dense_block_count", 0), spec, CorrectedMixtureFromGguf(config), config.path());
  return spec;
}

std::vector<WeightSpec> Dots1Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  AddQueryKeyNorms(weights, Axis::kHeadDim, Axis::kHeadDim);
  AddMixtureWeights(spec, kCorrectedMixtureNames, weights);
  return weights;
}

}  // namespace

constexpr Architecture kDots1 = {"dots1", "dots1", Dots1FromHf, Dots1FromGguf, Dots1Weights};

}  // namespace quire::architectures
