// Llama and Mistral: RMS norms before attention and MLP, rotated positions, grouped queries, a gated MLP.
#include "comm/model/architectures/llama.h"

#include <algorithm>
#include <cstring>

#include "comm/error.h"
#include "comm/model/architectures/all.h"

namespace quire::architectures {

namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr WeightSpec kEmbedding = {Role::kEmbedding, "model.embed_tokens.weight", "token_embd.weight", Axis::kTokens,
                                   Axis::kHidden};
constexpr WeightSpec kHead = {Role::kHead, "lm_head.weight", "output.weight", Axis::kVocab, Axis::kHidden};

std::vector<LayerSpec> Layers(int64_t count, const std::string& path) {
  if (count < 1 || count > kMaxLayers) Fail("{}: num_hidden_layers = {} is out of range", path, count);
  return std::vector<LayerSpec>(static_cast<size_t>(count));
}

int64_t UsualHeadDim(const ModelSpec& spec) { return spec.num_heads > 0 ? spec.hidden_size / spec.num_heads : 0; }

Rope RopeFromHf(const HfConfig& config) {
  Rope rope;
  rope.theta = config.Real("rope_theta", rope.theta);
  // Older files say rope_scaling, newer ones rope_parameters (which then also holds rope_theta).
  const char* key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.Has(key)) return rope;
  const HfConfig scaling(config.At(key), config.path() + ": " + key);
  rope.theta = scaling.Real("rope_theta", rope.theta);
  const std::string type = scaling.Text("rope_type", scaling.Text("type", "default"));
  scaling.RefuseWhatNobodyRead();
  if (type == "default") return rope;
  if (type != "linear" && type != "llama3") Fail("{}: {} of type {} is not supported", config.path(), key, type);
  if (type == "llama3") rope.scaling = RopeScaling::kLlama3;
  rope.factor = scaling.Real("factor", 1);
  rope.low_frequency_factor = scaling.Real("low_freq_factor", 1);
  rope.high_frequency_factor = scaling.Real("high_freq_factor", 4);
  rope.original_max_position = scaling.Real("original_max_position_embeddings", 8192);
  return rope;
}

Rope RopeFromGguf(const GgufConfig& config, int64_t head_dim) {
  Rope rope;
  if (config.Count("rope.dimension_count", head_dim) != head_dim) {
    Fail("{}: rotation of a part of each head is not supported", config.path());
  }
  rope.theta = config.Real("rope.freq_base", rope.theta);
  if (const std::string type = config.Text("rope.scaling.type", "none"); type != "none") {
    if (type != "linear") Fail("{}: rope scaling of type {} is not supported", config.path(), type);
    rope.factor = config.Real("rope.scaling.factor");
  }
  const auto divisors = config.file().tensors.find(kRopeDivisors);
  if (divisors == config.file().tensors.end()) return rope;
  const auto count = static_cast<size_t>(std::max<int64_t>(0, head_dim / 2));
  const Tensor& tensor = divisors->second;
  if (tensor.type != TensorType::kF32 || tensor.data.size() != count * sizeof(float)) {
    Fail("{}: {} must hold {} F32 numbers", config.path(), kRopeDivisors, count);
  }
  rope.divisors.resize(count);
  std::memcpy(rope.divisors.data(), tensor.data.data(), tensor.data.size());
  return rope;
}

ModelSpec InterleavedFromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  return spec;
}

/// HF attends to the whole context in a llama, whatever its file says of a window; in a mistral, only within it.
ModelSpec MistralFromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config);
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("sliding_window", 0);
  return spec;
}

}  // namespace

ModelSpec LlamaFromHf(const HfConfig& config) {
  ModelSpec spec;
  spec.hidden_size = config.Count("hidden_size");
  spec.layers = Layers(config.Count("num_hidden_layers"), config.path());
  spec.num_heads = config.Count("num_attention_heads");
  spec.num_kv_heads = config.Count("num_key_value_heads", spec.num_heads);
  spec.head_dim = config.Count("head_dim", UsualHeadDim(spec));
  spec.intermediate_size = config.Count("intermediate_size");
  spec.vocab_size = config.Count("vocab_size");
  spec.max_position = config.Count("max_position_embeddings");
  spec.rms_norm_epsilon = config.Real("rms_norm_eps", 1e-6);
  spec.tied_embeddings = config.Flag("tie_word_embeddings");
  spec.ropes = {RopeFromHf(config)};
  return spec;
}

ModelSpec LlamaFromGguf(const GgufConfig& config) {
  ModelSpec spec;
  spec.hidden_size = config.Count("embedding_length");
  spec.layers = Layers(config.Count("block_count"), config.path());
  spec.num_heads = config.Count("attention.head_count");
  spec.num_kv_heads = config.Count("attention.head_count_kv", spec.num_heads);
  spec.head_dim = config.Count("attention.key_length", UsualHeadDim(spec));
  if (config.Count("attention.value_length", spec.head_dim) != spec.head_dim) {
    Fail("{}: values of another length than keys are not supported", config.path());
  }
  spec.intermediate_size = config.Count("feed_forward_length");
  spec.max_position = config.Count("context_length");
  for (LayerSpec& layer : spec.layers) layer.window = config.Count("attention.sliding_window", 0);
  spec.rms_norm_epsilon = static_cast<float>(config.Real("attention.layer_norm_rms_epsilon"));
  spec.ropes = {RopeFromGguf(config, spec.head_dim)};
  spec.vocab_size = static_cast<int64_t>(config.file().Get<std::vector<std::string>>("tokenizer.ggml.tokens").size());
  spec.tied_embeddings = !config.file().tensors.contains(kHead.gguf);
  return spec;
}

std::vector<WeightSpec> LlamaWeights(const ModelSpec& spec) {
  WeightSpec head = kHead;
  if (spec.tied_embeddings) {
    head.hf = kEmbedding.hf;
    head.gguf = kEmbedding.gguf;
  }
  const auto in_layer = [](Role role, const char* hf, const char* gguf, Axis rows, Axis cols, bool rotates = false) {
    return WeightSpec{role, hf, gguf, rows, cols, rotates};
  };
  using enum Axis;
  return {
      kEmbedding,
      in_layer(Role::kAttentionNorm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", kHidden,
               kOne),
      in_layer(Role::kMlpNorm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", kHidden,
               kOne),
      in_layer(Role::kQuery, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", kQueries, kHidden,
               true),
      in_layer(Role::kKey, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", kKeyValues, kHidden,
               true),
      in_layer(Role::kValue, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", kKeyValues, kHidden),
      in_layer(Role::kAttentionOut, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight", kHidden,
               kQueries),
      in_layer(Role::kGate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight", kMlp, kHidden),
      in_layer(Role::kUp, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", kMlp, kHidden),
      in_layer(Role::kDown, "model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight", kHidden, kMlp),
      {Role::kFinalNorm, "model.norm.weight", "output_norm.weight", kHidden, kOne},
      head,
  };
}

constexpr Architecture kLlama = {"llama", "llama", LlamaFromHf, InterleavedFromGguf, LlamaWeights};
constexpr Architecture kMistral = {"mistral", nullptr, MistralFromHf, nullptr, LlamaWeights};

}  // namespace quire::architectures
