// Jina v3 (jina-embeddings-v3-hf) is RoBERTa with RoPE in place of learned positions. Its tensors have names like
// NomicBERT's.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

constexpr const char* kUnusedOfJinaV3[] = {"lm_head.", "pooler.", "roberta.pooler."};

ModelSpec JinaV3FromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 8194}, false);
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu");
  spec.token_types = config.Count("type_vocab_size", 1);
  spec.ropes = {RopeFromHf(config, spec.layers[0].head_dim, {.theta = 20000})};
  SetPostNormEncoder(spec);
  SetBiases(spec, true, true);
  if (Classifies(config)) Fail("{}: classifiers of this family are not supported", config.path());
  return spec;
}

ModelSpec JinaV3FromGguf(const GgufConfig& config) {
  ModelSpec spec = PostNormEncoderFromGguf(config);
  spec.activation = Activation::kGelu;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  return spec;
}

std::vector<WeightSpec> JinaV3Weights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  ModelSpec without_biases = spec;
  without_biases.qkv_bias = false;
  std::vector<WeightSpec> weights = NomicBertWeights(without_biases);
  std::erase_if(weights, [](const WeightSpec& weight) {
    return weight.role == kGate || weight.role == kQuery || weight.role == kKey || weight.role == kValue;
  });
  AddFusedQkv(spec, weights, "bert.encoder.layers.{}.mixer.Wqkv.weight", "bert.encoder.layers.{}.mixer.Wqkv.bias");
  Rename(weights, kAttentionOut, "bert.encoder.layers.{}.mixer.out_proj.weight");
  Rename(weights, kUp, "bert.encoder.layers.{}.mlp.fc1.weight");
  weights.insert(weights.end(), {{kAttentionOutBias, "bert.encoder.layers.{}.mixer.out_proj.bias", kHidden, kOne},
                                 {kUpBias, "bert.encoder.layers.{}.mlp.fc1.bias", kMlp, kOne},
                                 {kDownBias, "bert.encoder.layers.{}.mlp.fc2.bias", kHidden, kOne}});
  return weights;
}

}  // namespace

constexpr Architecture kJinaV3 = {.hf = "jina_embeddings_v3",
                                  .gguf = "jina-bert-v3",
                                  .from_hf = JinaV3FromHf,
                                  .from_gguf = JinaV3FromGguf,
                                  .weights = JinaV3Weights,
                                  .hf_buffers = kPositionIds,
                                  .hf_unused = kUnusedOfJinaV3};

}  // namespace quire::architectures
