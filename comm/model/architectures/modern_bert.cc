// ModernBERT has RoPE, gated MLPs, norms before attention and MLP, and windows to both sides in two of three layers.
// The first layer has no norm before its attention.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr double kGlobalRopeTheta = 160000, kLocalRopeTheta = 10000;

constexpr const char* kGateUp = "model.layers.{}.mlp.Wi.weight";
// Prefixes of ignored tensors: the heads that predict masked tokens.
constexpr const char* kUnusedOfModernBert[] = {"head.", "decoder."};

/// Reads the layers' windows. A token sees half of local_attention to each side, and itself.
void ReadLocalAttention(const HfConfig& config, ModelSpec& spec) {
  const int64_t whole = config.Count("local_attention", 128), every = config.Count("global_attn_every_n_layers", 3);
  const int64_t half = config.Count("sliding_window", whole / 2);  // HF's other name for half of the window
  if (half < 1) Fail("{}: local_attention = {} is out of range", config.path(), whole);
  if (every < 1) Fail("{}: global_attn_every_n_layers = {} is out of range", config.path(), every);
  ReadKinds(config, spec, half + 1, [&](int64_t layer) { return layer % every != 0; });
}

void ReadModernBertRopes(const HfConfig& config, ModelSpec& spec) {
  const int64_t head_dim = spec.layers[0].head_dim;
  const double global = config.Real("global_rope_theta", kGlobalRopeTheta);
  const double local = config.Real("local_rope_theta", kLocalRopeTheta);
  const std::optional<RopesOfKinds> ropes = RopesOfKindsFromHf(config, head_dim, global, local);
  if (ropes) {
    spec.ropes = {ropes->full, ropes->sliding};
  } else {
    // rope_scaling of older files applies to layers of both kinds.
    spec.ropes = {RopeFromHf(config, head_dim, {.theta = global}), RopeFromHf(config, head_dim, {.theta = local})};
  }
  for (LayerSpec& layer : spec.layers) layer.rope = layer.window > 0 ? 1 : 0;
}

HeadActivation HeadActivationOf(const HfConfig& config) {
  switch (ActivationFromHf(config, "classifier_activation", "gelu")) {
    case Activation::kGelu:
      return HeadActivation::kGelu;
    case Activation::kRelu:
      return HeadActivation::kRelu;
    default:
      Fail("{}: classifier_activation must be gelu or relu", config.path());
  }
}

ModelSpec ModernBertFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 8192, .epsilon = "norm_eps"}, false);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_activation", "gelu");
  spec.gated_mlp = true;
  spec.embedding_norm = true;
  spec.norm_bias = config.Flag("norm_bias");
  SetBiases(spec, config.Flag("attention_bias"), false);
  if (config.Flag("mlp_bias")) Fail("{}: mlp_bias = true is not supported", config.path());
  spec.layers[0].mixer_norm = false;
  ReadLocalAttention(config, spec);
  ReadModernBertRopes(config, spec);
  SetEncoder(spec);
  if (!Classifies(config)) return spec;
  const std::string pooling = config.Text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean")
    Fail("{}: classifier_pooling = \"{}\" is not supported", config.path(), pooling.substr(0, 100));
  spec.pooled_head = {.outputs = LabelsOf(config),
                      .mean = pooling == "mean",
                      .inner = true,
                      .inner_bias = config.Flag("classifier_bias"),
                      .activation = HeadActivationOf(config),
                      .norm = true,
                      .norm_bias = spec.norm_bias};
  return spec;
}

std::vector<WeightSpec> ModernBertWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {{kEmbedding, "model.embeddings.tok_embeddings.weight", kTokens, kHidden},
                                     {kEmbeddingNorm, "model.embeddings.norm.weight", kHidden, kOne},
                                     {kEmbeddingNormBias, "model.embeddings.norm.bias", kHidden, kOne},
                                     {kAttentionNorm, "model.layers.{}.attn_norm.weight", kHidden, kOne},
                                     {kAttentionNormBias, "model.layers.{}.attn_norm.bias", kHidden, kOne},
                                     {kAttentionOut, "model.layers.{}.attn.Wo.weight", kHidden, kQueries},
                                     {kAttentionOutBias, "model.layers.{}.attn.Wo.bias", kHidden, kOne},
                                     {kMlpNorm, "model.layers.{}.mlp_norm.weight", kHidden, kOne},
                                     {kMlpNormBias, "model.layers.{}.mlp_norm.bias", kHidden, kOne},
                                     {kGate, kGateUp, kMlp, kHidden},
                                     {kUp, kGateUp, kMlp, kHidden},
                                     {kDown, "model.layers.{}.mlp.Wo.weight", kHidden, kMlp},
                                     {kFinalNorm, "model.final_norm.weight", kHidden, kOne},
                                     {kFinalNormBias, "model.final_norm.bias", kHidden, kOne}};
  for (const Role role : {kGate, kUp}) WeightOf(weights, role).fusion = Fusion::kInOrder;
  AddFusedQkv(spec, weights, "model.layers.{}.attn.Wqkv.weight", "model.layers.{}.attn.Wqkv.bias");
  AddPooledHead(spec,
                {.in = "head.dense.weight",
                 .in_bias = "head.dense.bias",
                 .norm = "head.norm.weight",
                 .norm_bias = "head.norm.bias",
                 .out = kClassifier,
                 .out_bias = kClassifierBias},
                weights);
  return WithoutMissingBiases(spec, std::move(weights));
}

}  // namespace

constexpr Architecture kModernBert = {.hf = "modernbert",
                                      .gguf = nullptr,
                                      .from_hf = ModernBertFromHf,
                                      .from_gguf = nullptr,
                                      .weights = ModernBertWeights,
                                      .hf_unused = kUnusedOfModernBert};

}  // namespace quire::architectures
