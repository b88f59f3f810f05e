#include "tests/support/random_model.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "tests/support/random.h"

namespace quire::test {

namespace {

__extension__ using Float16 = _Float16;

void AppendNumber(std::string& bytes, float x, const std::string& dtype) {
  if (dtype == "F32") {
    bytes.append(reinterpret_cast<const char*>(&x), 4);
    return;
  }
  const auto bits = dtype == "F16" ? std::bit_cast<uint16_t>(static_cast<Float16>(x))
                                   : static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  bytes.append(reinterpret_cast<const char*>(&bits), 2);
}

/// Writes tensors into a safetensors file.
class TensorWriter {
 public:
  TensorWriter(std::string dtype, uint64_t seed) : dtype_(std::move(dtype)), random_(seed) {}

  /// Adds a tensor of random numbers, which differ from `centre` by at most `spread`.
  void Add(const std::string& name, std::vector<int64_t> shape, float centre, float spread) {
    const size_t begin = data_.size();
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    for (int64_t i = 0; i < count; ++i) AppendNumber(data_, centre + spread * random_.Signed(), dtype_);
    header_[name] = {{"dtype", dtype_}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }

  /// Adds a matrix of packed integers with their scales: each word packs neighbours of a row, and each word of zero
  /// points packs neighbours of a column.
  void AddPacked(const std::string& module, std::vector<int64_t> shape, float spread, int bits, bool with_zeros) {
    const int64_t rows = shape[0], words = shape[1] * bits / 32, groups = shape[1] / 32;
    std::string bytes;
    for (int64_t i = 0; i < rows * words; ++i) AppendWord(bytes, static_cast<uint32_t>(random_.Bits()));
    Put(module + ".weight_packed", "I32", {rows, words}, bytes);
    bytes.clear();
    for (int64_t i = 0; i < rows * groups; ++i)
      AppendNumber(bytes, spread * (0.75f + 0.25f * random_.Signed()) / static_cast<float>(1 << (bits - 1)), "F16");
    Put(module + ".weight_scale", "F16", {rows, groups}, bytes);
    bytes.clear();
    for (int64_t i = 0; i < rows / 8 * groups; ++i)  // zero points of 6 to 9
      AppendWord(bytes, 0x66666666u + (static_cast<uint32_t>(random_.Bits()) & 0x33333333u));
    if (with_zeros) Put(module + ".weight_zero_point", "I32", {rows / 8, groups}, bytes);
    bytes.clear();
    for (const int64_t n : shape) AppendWord(bytes, static_cast<uint32_t>(n));
    Put(module + ".weight_shape", "I32", {2}, bytes);
  }

  /// Adds an FP8 matrix of random numbers of either sign with magnitudes from 0.5 to 1.875, and a scale for each 128 x
  /// 128 block.
  void AddFp8(const std::string& module, const std::vector<int64_t>& shape, float spread) {
    std::string numbers, factors;
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i)
      numbers += static_cast<char>(0x30 + random_.Below(16) + 128 * random_.Below(2));
    Put(module + ".weight", "F8_E4M3", shape, numbers);
    const int64_t rows = (shape[0] + 127) / 128, cols = (shape[1] + 127) / 128;
    for (int64_t i = 0; i < rows * cols; ++i)
      AppendNumber(factors, spread * (0.75f + 0.25f * random_.Signed()) / 2, "F32");
    Put(module + ".weight_scale_inv", "F32", {rows, cols}, factors);
  }

  void AddNumber(const std::string& name, float number) {
    std::string bytes;
    AppendNumber(bytes, number, "F32");
    Put(name, "F32", {}, bytes);
  }

  /// Adds a tensor of MXFP4 blocks of 32 numbers. Each byte holds two neighbours.
  void AddMxFp4(const std::string& name, std::vector<int64_t> shape, float spread) {
    int64_t blocks = 1;
    shape.back() /= 32;
    for (const int64_t n : shape) blocks *= n;
    const int power = 127 + static_cast<int>(std::lround(std::log2(spread / 3)));  // an E2M1 number is about 3
    std::string nibbles, scales;
    for (int64_t i = 0; i < 16 * blocks; ++i) nibbles += static_cast<char>(random_.Below(256));
    for (int64_t i = 0; i < blocks; ++i) scales += static_cast<char>(power - static_cast<int>(random_.Below(2)));
    Put(name + "_scales", "U8", shape, scales);
    shape.push_back(16);
    Put(name + "_blocks", "U8", shape, nibbles);
  }

  void Write(const std::filesystem::path& path) const {
    std::string head = header_.dump();
    head.resize((head.size() + 7) / 8 * 8, ' ');
    const uint64_t length = head.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << head << data_;
  }

 private:
  static void AppendWord(std::string& bytes, uint32_t word) { bytes.append(reinterpret_cast<const char*>(&word), 4); }
  void Put(const std::string& name, const char* type, const std::vector<int64_t>& shape, const std::string& bytes) {
    const size_t begin = data_.size();
    data_ += bytes;
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }

  std::string dtype_, data_;
  Random random_;
  Json header_ = Json::object();
};

bool IsOfLayerNormFamily(const std::string& family) {
  return std::set<std::string>{"bloom",      "mpt",    "gpt_neox", "gpt2",     "opt", "falcon",
                               "starcoder2", "cohere", "cohere2",  "stablelm", "phi"}
      .contains(family);
}

/// Returns a configuration that gives the sizes under every family's names; each family ignores the others' names. The
/// MLP's width is the family's default if the family's files do not give it.
Json LayerNormConfigOf(const ModelShape& s) {
  Json config = {
      {"model_type", s.family}, {"vocab_size", s.vocab}, {"tie_word_embeddings", s.tied}, {"eos_token_id", 0}};
  for (const char* key : {"hidden_size", "d_model", "n_embd"}) config[key] = s.hidden;
  for (const char* key : {"num_hidden_layers", "n_layer", "n_layers"}) config[key] = s.layers;
  for (const char* key : {"num_attention_heads", "n_head", "n_heads"}) config[key] = s.heads;
  for (const char* key : {"intermediate_size", "n_inner", "ffn_dim"}) config[key] = s.intermediate;
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"}) config[key] = 512;
  for (const char* key : {"num_key_value_heads", "num_kv_heads"}) config[key] = s.kv_heads;
  if (s.sliding_window > 0) config["sliding_window"] = s.sliding_window;
  if (s.family == "cohere2") config["sliding_window_pattern"] = 2;
  if (s.family == "cohere" || s.family == "cohere2") config["logit_scale"] = 0.5;
  if (s.family == "falcon") config["new_decoder_architecture"] = s.kv_heads > 1;
  if (s.family == "stablelm") config["use_parallel_residual"] = s.parallel;
  if (s.family == "gpt_neox") config["use_parallel_residual"] = s.parallel;
  if (s.family == "gpt2") config["activation_function"] = "gelu_new";
  if (s.family == "opt") config["activation_function"] = "relu";
  return config;
}

/// Returns the kinds of layers: every third layer, from the second on, is attention, and the others have a recurrent
/// state.
Json MixersOf(const ModelShape& s, const char* keeps_state) {
  Json kinds = Json::array();
  for (int64_t i = 0; i < s.layers; ++i) kinds.push_back(i % 3 == 1 ? "full_attention" : keeps_state);
  return kinds;
}

bool HasLatents(const std::string& family) {
  return family == "deepseek_v2" || family == "deepseek_v3" || family == "glm4_moe_lite";
}

/// Returns the keys of config.json that only this family has, set so that all features of the family are used.
Json OwnKeysOf(const ModelShape& s) {
  if (s.family == "phi3") {
    std::vector<double> factors;
    for (int64_t i = 0; i < s.head_dim * 3 / 8; ++i) factors.push_back(1 + 0.1 * static_cast<double>(i));
    return {{"partial_rotary_factor", 0.75},
            {"original_max_position_embeddings", 1024},
            {"rope_scaling",
             {{"type", "su"},
              {"original_max_position_embeddings", 1024},
              {"short_factor", factors},
              {"long_factor", factors}}}};
  }
  if (s.family == "ministral3") {
    return {{"rope_parameters",
             {{"rope_type", "yarn"},
              {"factor", 8.0},
              {"original_max_position_embeddings", 16},
              {"llama_4_scaling_beta", 0.3}}}};
  }
  if (s.family == "granite") {
    return {{"embedding_multiplier", 2.5},
            {"attention_multiplier", 0.2},
            {"residual_multiplier", 0.6},
            {"logits_scaling", 0.7}};
  }
  if (s.family == "granitemoe") {
    return {{"num_local_experts", 6},      {"num_experts_per_tok", 2},   {"embedding_multiplier", 2.5},
            {"attention_multiplier", 0.2}, {"residual_multiplier", 0.6}, {"logits_scaling", 0.7}};
  }
  if (s.family == "mixtral" || s.family == "olmoe") {
    return {{"num_local_experts", 6}, {"num_experts_per_tok", 2}};
  }
  if (s.family == "qwen2_moe" || s.family == "qwen3_moe") {
    return {{"num_experts", 7},       {"num_experts_per_tok", 3},
            {"norm_topk_prob", true}, {"moe_intermediate_size", s.intermediate},
            {"mlp_only_layers", {0}}, {"shared_expert_intermediate_size", s.family == "qwen2_moe" ? 40 : 0}};
  }
  if (s.family == "gpt_oss") {
    return {{"num_local_experts", 6},
            {"num_experts_per_tok", 2},
            {"swiglu_limit", 1.5},
            {"rope_parameters",
             {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 64}, {"truncate", false}}}};
  }
  if (s.family == "phimoe") {
    return {{"num_local_experts", 6},
            {"num_experts_per_tok", 2},
            {"router_jitter_noise", 0.3},
            {"attention_bias", true},
            {"lm_head_bias", true}};
  }
  if (s.family == "minimax_m2") {
    return {{"num_local_experts", 6}, {"num_experts_per_tok", 3}, {"rotary_dim", s.head_dim / 2}};
  }
  if (s.family == "ernie4_5_moe") {
    return {{"moe_num_experts", 6}, {"moe_k", 2}, {"moe_intermediate_size", s.intermediate}};
  }
  if (s.family == "arcee") return {{"hidden_act", "relu2"}};
  if (s.family == "exaone4") return {{"sliding_window_pattern", 2}};
  if (s.family == "hunyuan_v1_dense")
    return {{"rope_scaling", {{"type", "dynamic"}, {"factor", 1.0}, {"alpha", 50.0}}}};
  if (s.family == "afmoe") {
    return {{"num_experts", 6},
            {"num_experts_per_tok", 2},
            {"num_shared_experts", 1},
            {"num_dense_layers", 1},
            {"moe_intermediate_size", s.intermediate},
            {"route_scale", 1.5},
            {"global_attn_every_n_layers", 2},
            {"mup_enabled", true}};
  }
  if (s.family == "dots1") {
    return {{"n_routed_experts", 6},
            {"num_experts_per_tok", 2},
            {"moe_intermediate_size", s.intermediate},
            {"n_group", 3},
            {"topk_group", 2},
            {"routed_scaling_factor", 1.5},
            {"n_shared_experts", 1},
            {"first_k_dense_replace", 1},
            {"max_window_layers", 1}};
  }
  if (HasLatents(s.family)) {
    const int64_t rotated = std::max<int64_t>(s.head_dim / 8, 16);
    Json keys = {{"n_routed_experts", 8},
                 {"num_experts_per_tok", 3},
                 {"moe_intermediate_size", s.intermediate},
                 {"n_group", 4},
                 {"topk_group", 2},
                 {"routed_scaling_factor", 1.5},
                 {"n_shared_experts", 1},
                 {"first_k_dense_replace", 1},
                 {"num_key_value_heads", s.heads},
                 {"head_dim", rotated},
                 {"kv_lora_rank", s.head_dim},
                 {"q_lora_rank", 96},
                 {"qk_nope_head_dim", 32},
                 {"qk_rope_head_dim", rotated},
                 {"v_head_dim", 64}};
    if (s.family == "deepseek_v2")
      keys.update({{"q_lora_rank", nullptr}, {"n_group", nullptr}, {"topk_group", nullptr}, {"topk_method", "greedy"}});
    if (s.family == "glm4_moe_lite") {
      std::vector<std::string> kinds(static_cast<size_t>(s.layers), "sparse");
      kinds.front() = "dense";
      keys.update({{"n_group", 1}, {"topk_group", 1}, {"mlp_layer_types", kinds}});
    }
    return keys;
  }
  if (s.family == "glm4_moe") {
    return {{"n_routed_experts", 8},  {"num_experts_per_tok", 3}, {"moe_intermediate_size", s.intermediate},
            {"n_group", 4},           {"topk_group", 2},          {"routed_scaling_factor", 1.5},
            {"attention_bias", true}, {"use_qk_norm", true}};
  }
  if (s.family == "lfm2" || s.family == "lfm2_moe") {
    Json keys = {{"layer_types", MixersOf(s, "conv")},
                 {"conv_L_cache", 3},
                 {"norm_eps", 1e-5},
                 {"block_auto_adjust_ff_dim", false}};
    if (s.family == "lfm2") return keys;
    keys.update({{"num_experts", 6},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", s.intermediate},
                 {"num_dense_layers", 1}});
    return keys;
  }
  if (s.family == "qwen3_next" || s.family == "qwen3_5_text") {
    Json keys = {{"layer_types", MixersOf(s, "linear_attention")},
                 {"linear_num_key_heads", 3},
                 {"linear_num_value_heads", 6},
                 {"linear_key_head_dim", 40},
                 {"linear_value_head_dim", 24},
                 {"linear_conv_kernel_dim", 4},
                 {"partial_rotary_factor", 0.25}};
    if (s.family == "qwen3_5_text") return keys;
    keys.update({{"num_experts", 5},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", s.intermediate},
                 {"shared_expert_intermediate_size", 40},
                 {"norm_topk_prob", true},
                 {"mlp_only_layers", {1}}});
    return keys;
  }
  if (s.family == "granitemoehybrid" || s.family == "bamba") {
    Json keys = {{"mamba_n_heads", 7},  {"mamba_d_head", 40},  {"mamba_expand", 280 / s.hidden},
                 {"mamba_n_groups", 1}, {"mamba_d_state", 20}, {"mamba_d_conv", 4}};
    if (s.family == "bamba") {
      keys["attn_layer_indices"] = {1};
      return keys;
    }
    keys.update({{"layer_types", MixersOf(s, "linear_attention")},
                 {"num_local_experts", 6},
                 {"num_experts_per_tok", 2},
                 {"shared_intermediate_size", 40},
                 {"embedding_multiplier", 2.5},
                 {"attention_multiplier", 0.2},
                 {"residual_multiplier", 0.6},
                 {"logits_scaling", 0.7}});
    return keys;
  }
  if (s.family == "lfm3") {
    constexpr const char* kKinds[] = {"conv", "full_attention", "sliding_attention"};
    Json kinds = Json::array();
    for (int64_t i = 0; i < s.layers; ++i) kinds.push_back(kKinds[i % 3]);
    return {
        {"layer_types", kinds},
        {"conv_L_cache", 5},
        {"rope_parameters",
         {{"full_attention", {{"rope_type", "proportional"}, {"rope_theta", 500.0}, {"partial_rotary_factor", 0.5}}},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}}}};
  }
  if (s.family == "nemotron_h") {
    const char* mlp = s.experts ? "moe" : "mlp";
    return {{"layers_block_type", {"linear_attention", mlp, "full_attention", "linear_attention", mlp}},
            {"n_routed_experts", 6},
            {"num_experts_per_tok", 2},
            {"moe_intermediate_size", 40},
            {"moe_shared_expert_intermediate_size", 24},
            {"n_group", 1},
            {"topk_group", 1},
            {"routed_scaling_factor", 2.5},
            {"mamba_num_heads", 6},
            {"mamba_head_dim", 24},
            {"n_groups", 2},
            {"ssm_state_size", 72},
            {"conv_kernel", 4}};
  }
  // HF applies a file's rope_theta only to layers without a window. This number is the default of all layers.
  if (s.family == "olmo3") return {{"rope_theta", 500000.0}};
  if (s.family == "gemma") return {{"hidden_act", "gelu_pytorch_tanh"}};
  if (s.family == "gemma2") {
    return {{"query_pre_attn_scalar", 40}, {"attn_logit_softcapping", 4.0}, {"final_logit_softcapping", 6.0}};
  }
  if (s.family == "gemma3_text") {
    return {{"query_pre_attn_scalar", 40},
            {"sliding_window_pattern", 2},
            {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  }
  if (s.family == "gemma4_text") {
    Json kinds = Json::array();
    for (int64_t i = 0; i < s.layers; ++i) kinds.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
    Json keys = {{"layer_types", kinds},
                 {"global_head_dim", 2 * s.head_dim},
                 {"final_logit_softcapping", 6.0},
                 {"hidden_size_per_layer_input", s.shares_kv ? 40 : 0},
                 {"vocab_size_per_layer_input", s.vocab},
                 {"num_kv_shared_layers", s.shares_kv ? s.layers - 2 : 0},
                 {"use_double_wide_mlp", true}};
    if (!s.shares_kv) keys.update({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}});
    if (s.experts) {
      keys.update(
          {{"enable_moe_block", true}, {"num_experts", 6}, {"top_k_experts", 2}, {"moe_intermediate_size", 40}});
    }
    return keys;
  }
  return Json::object();
}

Json ConfigOf(const ModelShape& s) {
  Json config = {{"model_type", s.sliding_window > 0 && s.family == "llama" ? "mistral" : s.family},
                 {"hidden_size", s.hidden},
                 {"num_hidden_layers", s.layers},
                 {"num_attention_heads", s.heads},
                 {"num_key_value_heads", s.kv_heads},
                 {"head_dim", s.head_dim},
                 {"intermediate_size", s.intermediate},
                 {"vocab_size", s.vocab},
                 {"max_position_embeddings", 4096},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 10000.0},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", s.tied},
                 {"eos_token_id", 0}};
  if (IsOfLayerNormFamily(s.family)) return LayerNormConfigOf(s);
  if (s.sliding_window > 0) config["sliding_window"] = s.sliding_window;
  if (s.sliding_window > 0 && (s.family.starts_with("qwen") || s.family == "smollm3")) {
    config["use_sliding_window"] = true;
    config["max_window_layers"] = 1;
  }
  if (s.packed_bits > 0) {
    const Json weights = {{"type", "int"},
                          {"num_bits", s.packed_bits},
                          {"strategy", "group"},
                          {"group_size", 32},
                          {"symmetric", s.packed_bits == 8}};
    const Json group = {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", nullptr}};
    config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                     {"format", "pack-quantized"},
                                     {"quantization_status", "compressed"},
                                     {"ignore", {"lm_head"}},
                                     {"config_groups", {{"group_0", group}}}};
  }
  if (s.mxfp4) config["quantization_config"] = {{"quant_method", "mxfp4"}};
  if (s.fp8) {
    config["quantization_config"] = {{"quant_method", "fp8"},
                                     {"fmt", "e4m3"},
                                     {"activation_scheme", "dynamic"},
                                     {"weight_block_size", {128, 128}},
                                     {"modules_to_not_convert", {"lm_head"}}};
  }
  config.update(OwnKeysOf(s));
  return config;
}

struct Numbers {
  float centre, spread;
};
/// Returns a distribution of a tensor's numbers with which the magnitude of activations is about the same in all
/// layers.
Numbers NumbersOf(const ExpectedTensor& tensor) {
  if (tensor.role == Role::kEmbedding) return {0, 1};
  if (tensor.role == Role::kPositions) return {0, 0.3f};
  // The logits are far apart, so that rounding does not change the choice of experts.
  if (tensor.role == Role::kRouter) return {0, 8 / std::sqrt(static_cast<float>(tensor.shape[1]))};
  if (tensor.role == Role::kRouterCorrection) return {0, 0.1f};
  if (tensor.role == Role::kRouterNorm) {  // the engine divides the norm's result by the square root of the hidden size
    const float root = std::sqrt(static_cast<float>(tensor.shape[0]));
    return {root, 0.2f * root};
  }
  if (tensor.role == Role::kSinks) return {1, 1};
  if (tensor.role == Role::kConvTaps || tensor.role == Role::kStateQueryTaps || tensor.role == Role::kStateKeyTaps ||
      tensor.role == Role::kStateValueTaps) {
    return {0, 1};
  }
  if (tensor.role == Role::kStateRate)
    return {-2.3f, 1.5f};  // logarithms: some states remember few tokens, others many
  if (tensor.name.ends_with("proj_bias")) return {0, 0.5f};
  if (tensor.shape.size() == 3) return {0, 1.7f / std::sqrt(static_cast<float>(tensor.shape[1]))};  // [.., inputs, ..]
  if (tensor.shape.size() == 2) return {0, 1.7f / std::sqrt(static_cast<float>(tensor.shape[1]))};
  const bool bias = tensor.name.ends_with(".bias");
  return {bias ? 0.0f : 1.0f, bias ? 0.5f : 0.2f};
}

}  // namespace

RandomModel::RandomModel(const ModelShape& s, uint64_t seed) {
  std::string name = (std::filesystem::temp_directory_path() / "quire-model-XXXXXX").string();
  path_ = ::mkdtemp(name.data());
  const std::string config = ConfigOf(s).dump();
  std::ofstream(path_ / "config.json") << config;
  TensorWriter tensors(s.dtype, seed);
  const ModelSpec spec = SpecFromHf(config, "", path_);
  std::set<std::string> written;  // names of written tensors, because the head may share the embedding's tensor
  for (const ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) {
    if (!written.insert(tensor.name).second) continue;
    const auto [centre, spread] = NumbersOf(tensor);
    if (s.packed_bits > 0 && tensor.shape.size() == 2 && tensor.name.ends_with("proj.weight")) {
      const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
      const bool with_zeros = s.packed_bits == 4 && module.find("mlp") != std::string::npos;
      tensors.AddPacked(module, tensor.shape, spread, s.packed_bits, with_zeros);
      continue;
    }
    if (s.fp8 && tensor.shape.size() == 2 && tensor.name.ends_with("proj.weight")) {
      tensors.AddFp8(tensor.name.substr(0, tensor.name.rfind('.')), tensor.shape, spread);
      continue;
    }
    if (s.mxfp4 && tensor.shape.size() == 3) {
      tensors.AddMxFp4(tensor.name, tensor.shape, 1.7f / std::sqrt(static_cast<float>(tensor.shape[2])));
      continue;
    }
    tensors.Add(tensor.name, tensor.shape, centre, spread);
  }
  for (int64_t layer = 0; s.fp8 && layer < s.layers; ++layer) {
    const std::string attention = fmt::format("model.layers.{}.self_attn.", layer);
    tensors.AddNumber(attention + "k_scale", 0.04f + 0.01f * static_cast<float>(layer));
    tensors.AddNumber(attention + "v_scale", 0.07f + 0.01f * static_cast<float>(layer));
  }
  tensors.Write(path_ / "model.safetensors");
}

RandomModel::~RandomModel() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace quire::test
