// Arcee is Llama with an MLP without a gate. The MLP's activation is the square of a ReLU.
#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

void UsePlainMlp(ModelSpec& spec) {
  spec.gated_mlp = false;
  spec.activation = Activation::kRelu2;
}

ModelSpec ArceeFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  const std::string activation = config.Text("hidden_act", "relu2");
  if (activation != "relu2") {
    Fail("{}: hidden_act \"{}\" is not supported; supported: relu2", config.path(), activation.substr(0, 100));
  }
  UsePlainMlp(spec);
  return spec;
}

ModelSpec ArceeFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  UsePlainMlp(spec);
  return spec;
}

std::vector<WeightSpec> ArceeWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  std::erase_if(weights, [](const WeightSpec& weight) { return weight.role == Role::kGate; });
  return weights;
}

}  // namespace

constexpr Architecture kArcee = {"arcee", "arcee", ArceeFromHf, ArceeFromGguf, ArceeWeights};

}  // namespace quire::architectures
