// In Falcon, attention and MLP are parallel, with one norm for both or one for each. With parallel_attn = false, the
// MLP follows attention. A model has one or several key and value heads. In the fused tensor, a group's queries come
// before its key and value.
#include "comm/base/error.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/bloom.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/layer_norm_family.h"
#include "comm/model/architectures/rotation.h"

namespace quire::architectures {

namespace {

constexpr const char* kSecondNorm = "blk.{}.attn_norm_2.weight";

/// Reads the number of key and value heads, and whether attention and MLP are parallel and share a norm. Leaves the key
/// "alibi" unread, so that models with ALiBi are refused: HF rounds ALiBi's bias of each position to bfloat16.
void ReadBlock(const HfConfig& config, ModelSpec& spec) {
  const bool grouped = config.Flag("new_decoder_architecture");
  const bool one_key = !grouped && config.Flag("multi_query", true);
  const int64_t norms = config.Count("num_ln_in_parallel_attn", grouped ? 2 : 1);
  spec.SetAll(&LayerSpec::num_kv_heads, one_key ? 1 : config.Count("num_kv_heads", spec.num_heads));
  spec.parallel_block = config.Flag("parallel_attn", true);
  spec.shared_norm = spec.parallel_block && !(grouped && norms == 2);
  if (norms != 1 && !(norms == 2 && grouped)) {
    Fail("{}: num_ln_in_parallel_attn = {} is not supported {} new_decoder_architecture", config.path(), norms,
         grouped ? "with" : "without");
  }
  if (grouped && !spec.parallel_block) {
    Fail("{}: new_decoder_architecture without parallel_attn is not supported", config.path());
  }
  if (!grouped && !one_key && spec.layers[0].num_kv_heads != spec.num_heads) {
    Fail("{}: num_kv_heads = {} of {} without new_decoder_architecture is not supported", config.path(),
         spec.layers[0].num_kv_heads, spec.num_heads);
  }
}

ModelSpec FalconFromHf(const HfConfig& config) {
  ModelSpec spec = LayerNormFromHf(config,
                                   {.layers = {"num_hidden_layers", "n_layer"},
                                    .heads = {"num_attention_heads", "n_head"},
                                    .epsilon = "layer_norm_epsilon"},
                                   true);
  ReadBlock(config, spec);
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("ffn_hidden_size", 4 * spec.hidden_size));
  spec.activation = ActivationFromHf(config, "activation", "gelu");
  spec.ropes = {RopeFromHf(config, spec.layers[0].head_dim, {})};
  spec.fused_by_head = true;
  SetBiases(spec, config.Flag("bias"), config.Flag("bias"));
  return spec;
}

ModelSpec FalconFromGguf(const GgufConfig& config) {
  ModelSpec spec = LayerNormFromGguf(config);
  spec.activation = Activation::kGelu;
  spec.ropes = {RopeFromGguf(config, spec.layers[0].head_dim)};
  spec.parallel_block = true;
  spec.shared_norm = !Has(config, kSecondNorm);
  return spec;
}

std::vector<WeightSpec> FalconWeights(const ModelSpec& spec) {
  using enum Role;
  using enum Axis;
  std::vector<WeightSpec> weights = BloomWeights(spec);
  if (spec.parallel_block && !spec.shared_norm) {
    // In GGUF files, attn_norm is the norm of the MLP, and attn_norm_2 is the norm of attention.
    const auto norm = [](Role role, const char* hf, const char* gguf) {
      return WeightSpec{.role = role, .hf = hf, .rows = kHidden, .cols = kOne, .gguf = gguf};
    };
    weights.insert(weights.end(), {norm(kAttentionNorm, "transformer.h.{}.ln_attn.weight", kSecondNorm),
                                   norm(kAttentionNormBias, "transformer.h.{}.ln_attn.bias", "blk.{}.attn_norm_2.bias"),
                                   norm(kMlpNorm, "transformer.h.{}.ln_mlp.weight", GgufName(kAttentionNorm)),
                                   norm(kMlpNormBias, "transformer.h.{}.ln_mlp.bias", GgufName(kAttentionNormBias))});
  }
  return WithoutMissingBiases(spec, std::move(weights));
}

}  // namespace

constexpr Architecture kFalcon = {"falcon", "falcon", FalconFromHf, FalconFromGguf, FalconWeights};

}  // namespace quire::architectures
