// Seed-OSS is Llama with biases of queries, keys and values.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/gguf_names.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

ModelSpec SeedOssFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 8));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  spec.qkv_bias = config.Flag("attention_bias", true);
  spec.out_bias = config.Flag("attention_out_bias");
  return spec;
}

ModelSpec SeedOssFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.qkv_bias = Has(config, Role::kQueryBias);
  spec.out_bias = Has(config, Role::kAttentionOutBias);
  return spec;
}

std::vector<WeightSpec> SeedOssWeights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  WeightOf(weights, Role::kMlpNorm).gguf = GgufName(Role::kAttentionAfterNorm);
  if (spec.qkv_bias) AddQkvBiases(weights, false);
  if (spec.out_bias) AddAttentionOutBias(weights);
  return weights;
}

}  // namespace

constexpr Architecture kSeedOss = {"seed_oss", "seed_oss", SeedOssFromHf, SeedOssFromGguf, SeedOssWeights};

}  // namespace quire::architectures
