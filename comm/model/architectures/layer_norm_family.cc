#include "comm/model/architectures/layer_norm_family.h"

#include "comm/base/error.h"
#include "comm/model/architectures/gguf_names.h"

namespace quire::architectures {

namespace {

/// Returns true when the model's flags say that it has this weight. Weights other than biases always exist.
bool HasBias(const ModelSpec& spec, Role role) {
  switch (role) {
    case Role::kEmbeddingNormBias:
    case Role::kFinalNormBias:
    case Role::kAttentionNormBias:
    case Role::kMlpNormBias:
      return spec.norm_bias;
    case Role::kQueryBias:
    case Role::kKeyBias:
    case Role::kValueBias:
      return spec.qkv_bias;
    case Role::kAttentionOutBias:
      return spec.out_bias;
    case Role::kUpBias:
    case Role::kDownBias:
      return spec.mlp_bias;
    case Role::kHeadBias:
      return spec.head_bias;
    default:
      return true;
  }
}

/// Sets the settings that all families with LayerNorm share. Call this function after the sizes are set.
void SetFamily(ModelSpec& spec, const std::string& path) {
  if (spec.num_heads < 1 || spec.hidden_size % spec.num_heads != 0)
    Fail("{}: a hidden size of {} does not divide over {} heads", path, spec.hidden_size, spec.num_heads);
  spec.SetAll(&LayerSpec::head_dim, spec.hidden_size / spec.num_heads);
  spec.norm = NormKind::kLayer;
  spec.gated_mlp = false;
}

}  // namespace

int64_t CountOf(const HfConfig& config, const std::vector<const char*>& names, std::optional<int64_t> otherwise) {
  const char* said = nullptr;
  for (const char* name : names) {
    if (!config.Has(name)) continue;
    if (said != nullptr && config.Count(said) != config.Count(name)) {
      Fail("{}: {} = {} and {} = {} contradict each other", config.path(), said, config.Count(said), name,
           config.Count(name));
    }
    said = name;
  }
  if (said == nullptr && otherwise) return *otherwise;
  return config.Count(said != nullptr ? said : names.front());
}

void SetHeadDim(const HfConfig& config, ModelSpec& spec) {
  spec.SetAll(&LayerSpec::head_dim, spec.num_heads > 0 ? spec.hidden_size / spec.num_heads : 0);
  const int64_t said = config.Count("head_dim", spec.layers[0].head_dim);
  if (said == spec.layers[0].head_dim) return;
  Fail("{}: head_dim = {} is not supported for this architecture but as {}", config.path(), said,
       spec.layers[0].head_dim);
}

Activation ActivationFromHf(const HfConfig& config, const char* key, const char* otherwise) {
  const std::string name = config.Text(key, otherwise);
  if (name == "gelu" || name == "gelu_python") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  Fail("{}: {} = \"{}\" is not supported", config.path(), key, name.substr(0, 100));
}

ModelSpec LayerNormFromHf(const HfConfig& config, const HfSizes& sizes, bool tied) {
  ModelSpec spec;
  spec.hidden_size = CountOf(config, sizes.hidden);
  spec.layers = LayersOf(CountOf(config, sizes.layers), config.path());
  spec.num_heads = CountOf(config, sizes.heads);
  spec.SetAll(&LayerSpec::num_kv_heads, spec.num_heads);
  spec.vocab_size = config.Count("vocab_size");
  spec.max_position = CountOf(config, sizes.max_position, sizes.max_position_otherwise);
  spec.norm_epsilon = config.Real(sizes.epsilon, 1e-5);
  spec.tied_embeddings = config.Flag("tie_word_embeddings", tied);
  spec.norm_bias = true;
  SetFamily(spec, config.path());
  SetHeadDim(config, spec);
  return spec;
}

ModelSpec LayerNormFromGguf(const GgufConfig& config) {
  ModelSpec spec;
  spec.hidden_size = config.Count("embedding_length");
  spec.layers = LayersOf(config.Count("block_count"), config.path());
  spec.num_heads = config.Count("attention.head_count");
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("attention.head_count_kv", spec.num_heads));
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("feed_forward_length"));
  spec.max_position = config.Count("context_length");
  spec.norm_epsilon = static_cast<float>(config.Real("attention.layer_norm_epsilon"));
  spec.vocab_size = static_cast<int64_t>(config.file().Get<std::vector<std::string>>("tokenizer.ggml.tokens").size());
  spec.tied_embeddings = !Has(config, Role::kHead);
  spec.norm_bias = Has(config, Role::kFinalNormBias);
  SetFamily(spec, config.path());
  SetBiases(spec, Has(config, Role::kAttentionOutBias), Has(config, Role::kUpBias));
  return spec;
}

void SetBiases(ModelSpec& spec, bool attention, bool mlp) {
  spec.qkv_bias = spec.out_bias = attention;
  spec.mlp_bias = mlp;
}

void AddFusedQkv(const ModelSpec& spec, std::vector<WeightSpec>& weights, const char* name, const char* name_of_bias) {
  const Fusion fusion = spec.fused_by_head ? Fusion::kByKvHead : Fusion::kInOrder;
  const auto add = [&](Role role, Axis rows, bool bias, bool rotates) {
    weights.push_back({role, bias ? name_of_bias : name, rows, bias ? Axis::kOne : Axis::kHidden, rotates, fusion,
                       spec.transposed && !bias, bias ? kGgufQkvBias : kGgufQkv});
  };
  for (const bool bias : {false, true}) {
    if (bias && !spec.qkv_bias) continue;
    add(bias ? Role::kQueryBias : Role::kQuery, Axis::kQueries, bias, true);
    add(bias ? Role::kKeyBias : Role::kKey, Axis::kKeyValues, bias, true);
    add(bias ? Role::kValueBias : Role::kValue, Axis::kKeyValues, bias, false);
  }
}

std::vector<WeightSpec> WithoutMissingBiases(const ModelSpec& spec, std::vector<WeightSpec> weights) {
  std::erase_if(weights, [&](const WeightSpec& weight) { return !HasBias(spec, weight.role); });
  return weights;
}

}  // namespace quire::architectures
