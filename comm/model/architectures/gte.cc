// GTE (gte-base-en-v1.5, gte-multilingual-base) is BERT with RoPE in place of learned positions, and with gated MLPs.
// The model_type in published files is "new".
#include <cmath>

#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr const char* kUpGate = "new.encoder.layer.{}.mlp.up_gate_proj.weight";
// Prefixes of ignored tensors: the head for training, and the layer after pooling of models that are no classifiers.
constexpr const char* kUnusedOfGte[] = {"lm_head.", "new.pooler.", "pooler."};

/// Reads the rotation. The published class has a scaling "ntk" of its own: theta grows by the factor, and all
/// frequencies shrink by factor^(2 / head_dim), so that the last frequency shrinks by the factor.
/// max_position_embeddings is the length after scaling.
Rope RopeOfGte(const HfConfig& config, int64_t head_dim) {
  const double theta = config.Real("rope_theta", 10000);
  if (!config.Has("rope_scaling")) return RopeFromHf(config, head_dim, {.theta = theta});
  const HfConfig scaling(config.At("rope_scaling"), config.path() + ": rope_scaling");
  if (scaling.Text("rope_type", scaling.Text("type", "")) != "ntk")
    return RopeFromHf(config, head_dim, {.theta = theta});
  const double factor = scaling.Real("factor", 1);
  if (scaling.Has("mixed_b")) Fail("{}: mixed_b is not supported", scaling.path());
  scaling.RefuseOtherKeys();
  if (!(factor >= 1)) Fail("{}: a factor of {} is out of range", scaling.path(), factor);
  Rope rope;
  rope.theta = theta * factor;
  const double shrinks = std::pow(factor, 2.0 / static_cast<double>(head_dim));
  rope.divisors.assign(static_cast<size_t>(head_dim / 2), static_cast<float>(shrinks));
  return rope;
}

ModelSpec GteFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config, {.max_position_otherwise = 8192}, false);
  spec.norm_epsilon = config.Real("layer_norm_eps", 1e-12);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size"));
  spec.activation = ActivationFromHf(config, "hidden_act", "gelu");
  spec.gated_mlp = true;
  spec.token_types = config.Count("type_vocab_size", 1);
  if (const std::string kind = config.Text("position_embedding_type", "rope"); kind != "rope")
    Fail("{}: position_embedding_type = \"{}\" is not supported", config.path(), kind.substr(0, 100));
  if (const std::string norm = config.Text("layer_norm_type", "layer_norm"); norm != "layer_norm")
    Fail("{}: layer_norm_type = \"{}\" is not supported", config.path(), norm.substr(0, 100));
  for (const char* key : {"logn_attention_scale", "logn_attention_clip1"}) {
    if (config.Flag(key)) Fail("{}: {} = true is not supported", config.path(), key);
  }
  if (!config.Flag("pack_qkv", true)) Fail("{}: pack_qkv = false is not supported", config.path());
  spec.ropes = {RopeOfGte(config, spec.layers[0].head_dim)};
  SetPostNormEncoder(spec);
  SetBiases(spec, true, true);  // in the MLP, only the last product has a bias
  if (Classifies(config)) {
    spec.pooled_head = {
        .outputs = LabelsOf(config), .inner = true, .inner_bias = true, .activation = HeadActivation::kTanh};
  }
  return spec;
}

std::vector<WeightSpec> GteWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {{kEmbedding, "new.embeddings.word_embeddings.weight", kTokens, kHidden},
                                     {kEmbeddingNorm, "new.embeddings.LayerNorm.weight", kHidden, kOne},
                                     {kEmbeddingNormBias, "new.embeddings.LayerNorm.bias", kHidden, kOne},
                                     {kAttentionOut, "new.encoder.layer.{}.attention.o_proj.weight", kHidden, kQueries},
                                     {kAttentionOutBias, "new.encoder.layer.{}.attention.o_proj.bias", kHidden, kOne},
                                     {kAttentionNorm, "new.encoder.layer.{}.attn_ln.weight", kHidden, kOne},
                                     {kAttentionNormBias, "new.encoder.layer.{}.attn_ln.bias", kHidden, kOne},
                                     {kUp, kUpGate, kMlp, kHidden},
                                     {kGate, kUpGate, kMlp, kHidden},
                                     {kDown, "new.encoder.layer.{}.mlp.down_proj.weight", kHidden, kMlp},
                                     {kDownBias, "new.encoder.layer.{}.mlp.down_proj.bias", kHidden, kOne},
                                     {kMlpNorm, "new.encoder.layer.{}.mlp_ln.weight", kHidden, kOne},
                                     {kMlpNormBias, "new.encoder.layer.{}.mlp_ln.bias", kHidden, kOne}};
  for (const Role role : {kUp, kGate}) WeightOf(weights, role).fusion = Fusion::kInOrder;
  if (spec.token_types > 0)
    weights.push_back({kTokenTypes, "new.embeddings.token_type_embeddings.weight", kTypes, kHidden});
  AddFusedQkv(spec, weights, "new.encoder.layer.{}.attention.qkv_proj.weight",
              "new.encoder.layer.{}.attention.qkv_proj.bias");
  AddPooledHead(spec,
                {.in = "new.pooler.dense.weight",
                 .in_bias = "new.pooler.dense.bias",
                 .out = kClassifier,
                 .out_bias = kClassifierBias},
                weights);
  return weights;
}

}  // namespace

constexpr Architecture Gte(const char* hf) {
  return {.hf = hf,
          .gguf = nullptr,
          .from_hf = GteFromHf,
          .from_gguf = nullptr,
          .weights = GteWeights,
          .hf_buffers = kPositionIds,
          .hf_unused = kUnusedOfGte};
}

constexpr Architecture kNew = Gte("new");
constexpr Architecture kGte = Gte("gte");

}  // namespace quire::architectures
