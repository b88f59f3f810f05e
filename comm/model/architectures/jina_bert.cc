// Jina's BERT (jina-embeddings-v2) has gated MLPs, and ALiBi in place of learned positions: attention scores fall with
// distance in both directions. The model_type in its files is "bert", with position_embedding_type "alibi".
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr const char* kGated = "bert.encoder.layer.{}.mlp.gated_layers.weight";
// Prefixes of ignored tensors: the head for training, and the layer after pooling.
constexpr const char* kUnusedOfJinaBert[] = {"cls.", "pooler.", "bert.pooler."};

ModelSpec JinaBertFromGguf(const GgufConfig& config) {
  ModelSpec spec = PostNormEncoderFromGguf(config);
  spec.activation = Activation::kGelu;
  spec.gated_mlp = true;
  spec.mlp_bias = true;  // only the last product has a bias
  spec.position = Position::kAlibi;
  return spec;
}

std::vector<WeightSpec> JinaBertWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = BertAttentionWeights();
  weights.insert(weights.end(), {{kGate, kGated, kMlp, kHidden},
                                 {kUp, kGated, kMlp, kHidden},
                                 {kDown, "bert.encoder.layer.{}.mlp.wo.weight", kHidden, kMlp},
                                 {kDownBias, "bert.encoder.layer.{}.mlp.wo.bias", kHidden, kOne},
                                 {kMlpNorm, "bert.encoder.layer.{}.mlp.layernorm.weight", kHidden, kOne},
                                 {kMlpNormBias, "bert.encoder.layer.{}.mlp.layernorm.bias", kHidden, kOne}});
  for (const Role role : {kGate, kUp}) WeightOf(weights, role).fusion = Fusion::kInOrder;
  AddPooledHead(spec, {}, weights);
  return WithGgufNames(std::move(weights));
}

}  // namespace

ModelSpec JinaBertFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 512}, false);
  spec.architecture = "jina-bert-v2";
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-12);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.gated_mlp = true;
  const std::string gate = config.Text("feed_forward_type", "original");
  if (gate != "geglu" && gate != "reglu")
    Fail("{}: feed_forward_type = \"{}\" is not supported", config.path(), gate.substr(0, 100));
  spec.activation = gate == "geglu" ? Activation::kGelu : Activation::kRelu;
  (void)config.Text("hidden_act", "gelu");  // only models without gates use this key
  spec.token_types = config.Count("type_vocab_size", 2);
  spec.position = Position::kAlibi;
  SetPostNormEncoder(spec);
  SetBiases(spec, true, true);  // in the MLP, only the last product has a bias
  if (Classifies(config)) Fail("{}: classifiers of this family are not supported", config.path());
  return spec;
}

constexpr Architecture kJinaBert = {.hf = "jina-bert-v2",
                                    .gguf = "jina-bert-v2",
                                    .from_hf = JinaBertFromHf,
                                    .from_gguf = JinaBertFromGguf,
                                    .weights = JinaBertWeights,
                                    .hf_buffers = kPositionIds,
                                    .hf_unused = kUnusedOfJinaBert};

}  // namespace quire::architectures
