// Most layers of LFM2 have a short convolution between two gates; the others have attention. The layers have MLPs or,
// after the first layers, mixtures of experts. LFM3 adds norms after convolutions, attention and MLPs, a gate for each
// attention head, and layers with a sliding window.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_layers.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"

namespace quire::architectures {

namespace {

/// Returns the number of columns of the MLPs. Usually this number is two thirds of the file's MLP size, times
/// block_ffn_dim_multiplier, rounded up to a multiple of block_multiple_of. If block_auto_adjust_ff_dim is false, it is
/// the file's MLP size itself.
int64_t Lfm2MlpColumns(const HfConfig& config) {
  const int64_t said = config.Has("block_ff_dim") ? config.Count("block_ff_dim") : config.Count("intermediate_size");
  const int64_t multiple = config.Count("block_multiple_of", 256);
  const double factor = config.Real("block_ffn_dim_multiplier", 1);
  if (!config.Flag("block_auto_adjust_ff_dim", true)) return said;
  if (said < 1 || said > 1 << 24 || multiple < 1 || multiple > 1 << 20 || !(factor > 0 && factor <= 64))
    Fail("{}: an intermediate size of {}, times {}, in multiples of {}, is out of range", config.path(), said, factor,
         multiple);
  const int64_t wanted = static_cast<int64_t>(factor * static_cast<double>(2 * said / 3));
  return (wanted + multiple - 1) / multiple * multiple;
}

/// Reads layer_types or, in older files, the list of attention layers. Without both, all layers are attention.
void ReadLfm2Mixers(const HfConfig& config, ModelSpec& spec) {
  const std::vector<std::string> kinds = KindsOfLayers(config, spec);
  if (kinds.empty() && config.Has("full_attn_idxs")) {
    for (LayerSpec& layer : spec.layers) layer.mixer = Mixer::kShortConvolution;
    for (const double index : config.Reals("full_attn_idxs")) {
      if (!(index >= 0 && index < static_cast<double>(spec.layers.size())))
        Fail("{}: full_attn_idxs names layer {} of {}", config.path(), index, spec.layers.size());
      spec.layers[static_cast<size_t>(index)].mixer = Mixer::kAttention;
    }
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == "conv") {
      spec.layers[i].mixer = Mixer::kShortConvolution;
    } else if (kinds[i] != "full_attention") {
      Fail("{}: layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    }
  }
}

/// Reads everything except the MLPs.
ModelSpec MixersFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = 1000000});
  spec.norm_epsilon = config.Real("norm_eps", 1e-5);
  spec.tied_embeddings = config.Flag("tie_embedding", config.Flag("tie_word_embeddings", true));
  spec.qk_norm = QkNorm::kHeads;
  ReadLfm2Mixers(config, spec);
  if (spec.num_state_layers() > 0) spec.recurrence = {config.Count("conv_L_cache", 3), spec.hidden_size};
  return spec;
}

ModelSpec Lfm2FromHf(const HfConfig& config) {
  ModelSpec spec = MixersFromHf(config);
  spec.SetAll(&LayerSpec::intermediate_size, Lfm2MlpColumns(config));
  return spec;
}

/// Reads a mixture. HF divides the weights of the chosen experts by their sum plus 1e-6; the 1e-6 makes no difference
/// that matters.
ModelSpec Lfm2MoeFromHf(const HfConfig& config) {
  ModelSpec spec = MixersFromHf(config);
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = config.Flag("use_expert_bias", true);
  mixture.renormalize = config.Flag("norm_topk_prob", true);
  mixture.scale = config.Real("routed_scaling_factor", 1);
  SetMixtureFrom(config.Count("num_dense_layers", 2), spec, mixture, config.path());
  return spec;
}

/// Sets LFM3's mixers and windows by layer_types or, without that list, by the layers' numbers.
void ReadLfm3Mixers(const HfConfig& config, ModelSpec& spec) {
  const std::vector<std::string> kinds = KindsOfLayers(config, spec);
  const int64_t window = config.Count("sliding_window", 256);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    const bool full = kinds.empty() ? i % 4 == 2 : kinds[i] == "full_attention";
    const bool slides = kinds.empty() ? i % 4 == 0 && i > 0 : kinds[i] == "sliding_attention";
    if (!full && !slides && !kinds.empty() && kinds[i] != "conv")
      Fail("{}: layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    if (!full && !slides) layer.mixer = Mixer::kShortConvolution;
    if (slides) layer.window = window;
    layer.rope = slides ? 1 : 0;
  }
}

/// Reads LFM3's two ropes: the rope of layers without a window, then the rope of layers with a window.
std::vector<Rope> Lfm3Ropes(const HfConfig& config, int64_t head_dim) {
  constexpr double kFullTheta = 1000000, kSlidingTheta = 10000;
  if (!config.Has("rope_parameters")) {
    return {{.theta = kFullTheta, .turning_pairs = head_dim / 4}, {.theta = kSlidingTheta}};
  }
  const HfConfig kinds(config.At("rope_parameters"), config.path() + ": rope_parameters");
  const auto rope_of = [&](const char* kind, double theta) {
    const HfConfig scaling(kinds.At(kind), kinds.path() + ": " + kind);
    return RopeFromHf(config, scaling, head_dim, {.theta = theta, .proportional = true});
  };
  return {rope_of("full_attention", kFullTheta), rope_of("sliding_attention", kSlidingTheta)};
}

ModelSpec Lfm3FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.by_kind = true});
  spec.norm_epsilon = config.Real("norm_eps", 1e-5);
  spec.tied_embeddings = config.Flag("tie_embedding", config.Flag("tie_word_embeddings", true));
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 4));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  spec.qk_norm = QkNorm::kHeads;
  spec.norms_after = config.Flag("use_sandwich_norm", true);
  spec.attention_gate = spec.gate_by_head = config.Flag("use_attention_gate", true);
  ReadLfm3Mixers(config, spec);
  spec.ropes = Lfm3Ropes(config, spec.layers[0].head_dim);
  if (spec.num_state_layers() > 0) spec.recurrence = {config.Count("conv_L_cache", 7), spec.hidden_size};
  return spec;
}

/// Reads the configuration in a GGUF file. Layers without key and value heads are short convolutions.
ModelSpec Lfm2FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qk_norm = QkNorm::kHeads;
  SetMixerWithoutKeys(config, Mixer::kShortConvolution, spec);
  if (spec.num_state_layers() > 0) spec.recurrence = {config.Count("shortconv.l_cache"), spec.hidden_size};
  return spec;
}

ModelSpec Lfm2MoeFromGguf(const GgufConfig& config) {
  ModelSpec spec = Lfm2FromGguf(config);
  const int64_t dense = config.Count("leading_dense_block_count", 0);
  Mixture mixture = MixtureFromGguf(config);
  mixture.score = RouterScore::kSigmoid;
  mixture.renormalize = true;
  mixture.correction_bias = Has(config, Role::kRouterCorrection, dense);
  SetMixtureFrom(dense, spec, mixture, config.path());
  return spec;
}

constexpr MixtureNames kLfm2MixtureNames = {.router = "model.layers.{}.feed_forward.gate.weight",
                                            .gate = "model.layers.{}.feed_forward.experts.{}.w1.weight",
                                            .up = "model.layers.{}.feed_forward.experts.{}.w3.weight",
                                            .down = "model.layers.{}.feed_forward.experts.{}.w2.weight",
                                            .correction = "model.layers.{}.feed_forward.expert_bias"};

/// Returns the weights that have the same names in LFM2 and LFM3.
std::vector<WeightSpec> CommonWeights(const ModelSpec& spec) {
  using enum Axis;
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  Rename(weights, Role::kAttentionNorm, "model.layers.{}.operator_norm.weight");
  Rename(weights, Role::kMlpNorm, "model.layers.{}.ffn_norm.weight");
  Rename(weights, Role::kGate, "model.layers.{}.feed_forward.w1.weight");
  Rename(weights, Role::kUp, "model.layers.{}.feed_forward.w3.weight");
  Rename(weights, Role::kDown, "model.layers.{}.feed_forward.w2.weight");
  Rename(weights, Role::kFinalNorm, "model.embedding_norm.weight");
  WeightOf(weights, Role::kFinalNorm).gguf = GgufName(Role::kEmbeddingNorm);
  AddQueryKeyNorms(weights, kHeadDim, kHeadDim);
  const char* in = "model.layers.{}.conv.in_proj.weight";
  const WeightSpec convolution[] = {{Role::kConvInGate, in, kChannels, kHidden, false, Fusion::kInOrder},
                                    {Role::kConvOutGate, in, kChannels, kHidden, false, Fusion::kInOrder},
                                    {Role::kConvIn, in, kChannels, kHidden, false, Fusion::kInOrder},
                                    {Role::kConvTaps, "model.layers.{}.conv.conv.weight", kChannels, kTaps},
                                    {Role::kConvOut, "model.layers.{}.conv.out_proj.weight", kHidden, kChannels}};
  weights.insert(weights.begin() + 1, std::begin(convolution), std::end(convolution));
  AddMixtureWeights(spec, kLfm2MixtureNames, weights);
  return weights;
}

std::vector<WeightSpec> Lfm2Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = CommonWeights(spec);
  Rename(weights, Role::kAttentionOut, "model.layers.{}.self_attn.out_proj.weight");
  Rename(weights, Role::kQueryNorm, "model.layers.{}.self_attn.q_layernorm.weight");
  Rename(weights, Role::kKeyNorm, "model.layers.{}.self_attn.k_layernorm.weight");
  return weights;
}

std::vector<WeightSpec> Lfm3Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = CommonWeights(spec);
  if (spec.norms_after) {
    AddNormsAfter(weights);
    Rename(weights, Role::kAttentionAfterNorm, "model.layers.{}.post_operator_norm.weight");
    Rename(weights, Role::kMlpAfterNorm, "model.layers.{}.post_ffn_norm.weight");
  }
  if (spec.attention_gate) AddAttentionGate(weights, Axis::kHeads);
  return weights;
}

}  // namespace

constexpr Architecture kLfm2 = {"lfm2", "lfm2", Lfm2FromHf, Lfm2FromGguf, Lfm2Weights};
constexpr Architecture kLfm2Moe = {"lfm2_moe", "lfm2moe", Lfm2MoeFromHf, Lfm2MoeFromGguf, Lfm2Weights};
constexpr Architecture kLfm3 = {"lfm3", nullptr, Lfm3FromHf, nullptr, Lfm3Weights};

}  // namespace quire::architectures
