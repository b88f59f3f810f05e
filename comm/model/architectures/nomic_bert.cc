// NomicBERT (nomic-embed-text) is BERT with RoPE in place of learned positions, with gated MLPs, and with biases only
// in norms. The published files name their settings as GPT-2's files do; HF's own class names the settings as BERT's
// files do.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/encoder_family.h"

namespace quire::architectures {

namespace {

constexpr const char* kUnusedOfNomicBert[] = {"cls.", "bert.pooler.", "pooler."};

/// Throws Error for settings of the published class that change the computation and that no published model uses.
void RefuseVariants(const HfConfig& config) {
  for (const char* key : {"prenorm", "causal", "parallel_block", "use_rms_norm", "rotary_emb_interleaved",
                          "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "scale_attn_by_inverse_layer_idx"}) {
    if (config.Flag(key)) Fail("{}: {} = true is not supported", config.path(), key);
  }
  for (const char* key : {"rotary_emb_scale_base", "rotary_scaling_factor"}) {
    if (config.Has(key)) Fail("{}: {} is not supported", config.path(), key);
  }
  if (config.Real("rotary_emb_fraction", 1) != 1)
    Fail("{}: rotary_emb_fraction = {} is not supported", config.path(), config.Real("rotary_emb_fraction", 1));
}

ModelSpec NomicBertFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.hidden = {"n_embd", "hidden_size"},
                                    .layers = {"n_layer", "num_hidden_layers"},
                                    .heads = {"n_head", "num_attention_heads"},
                                    .max_position = {"n_positions", "max_position_embeddings"}},
                                   false);
  spec.norm_epsilon = config.Real("layer_norm_epsilon", config.Real("layer_norm_eps", 1e-12));
  spec.SetAll(&LayerSpec::intermediate_size, CountOf(config, {"n_inner", "intermediate_size"}));
  const std::string gate = config.Text("activation_function", "swiglu");
  if (gate == "swiglu") {
    spec.activation = ActivationFromHf(config, "hidden_act", "silu");
  } else if (gate == "geglu") {
    spec.activation = Activation::kGelu;
  } else {
    Fail("{}: activation_function = \"{}\" is not supported", config.path(), gate.substr(0, 100));
  }
  spec.gated_mlp = true;
  spec.token_types = config.Count("type_vocab_size", 2);
  RefuseVariants(config);
  spec.ropes = {RopeFromHf(config, spec.layers[0].head_dim, {.theta = config.Real("rotary_emb_base", 1000)})};
  SetPostNormEncoder(spec);
  if (Classifies(config)) Fail("{}: classifiers of this family are not supported", config.path());
  return spec;
}

ModelSpec NomicBertFromGguf(const GgufConfig& config) {
  ModelSpec spec = PostNormEncoderFromGguf(config);
  spec.activation = Activation::kSilu;
  spec.gated_mlp = true;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  return spec;
}

}  // namespace

std::vector<WeightSpec> NomicBertWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = {{kEmbedding, kBertTokens, kTokens, kHidden},
                                     {kTokenTypes, kBertTypes, kTypes, kHidden},
                                     {kEmbeddingNorm, "bert.emb_ln.weight", kHidden, kOne},
                                     {kEmbeddingNormBias, "bert.emb_ln.bias", kHidden, kOne},
                                     {kAttentionOut, "bert.encoder.layers.{}.attn.out_proj.weight", kHidden, kQueries},
                                     {kAttentionNorm, "bert.encoder.layers.{}.norm1.weight", kHidden, kOne},
                                     {kAttentionNormBias, "bert.encoder.layers.{}.norm1.bias", kHidden, kOne},
                                     {kGate, "bert.encoder.layers.{}.mlp.fc12.weight", kMlp, kHidden},
                                     {kUp, "bert.encoder.layers.{}.mlp.fc11.weight", kMlp, kHidden},
                                     {kDown, "bert.encoder.layers.{}.mlp.fc2.weight", kHidden, kMlp},
                                     {kMlpNorm, "bert.encoder.layers.{}.norm2.weight", kHidden, kOne},
                                     {kMlpNormBias, "bert.encoder.layers.{}.norm2.bias", kHidden, kOne}};
  AddFusedQkv(spec, weights, "bert.encoder.layers.{}.attn.Wqkv.weight");
  return WithGgufNames(std::move(weights));
}

constexpr Architecture kNomicBert = {.hf = "nomic_bert",
                                     .gguf = "nomic-bert",
                                     .from_hf = NomicBertFromHf,
                                     .from_gguf = NomicBertFromGguf,
                                     .weights = NomicBertWeights,
                                     .hf_buffers = kPositionIds,
                                     .hf_unused = kUnusedOfNomicBert};

}  // namespace quire::architectures
