#include "comm/model/config_reader.h"

#include <type_traits>
#include <variant>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

/// A key that changes the model's computation, and its neutral value as JSON. null and a missing key are always
/// neutral.
struct Meaningful {
  const char* key;
  const char* neutral;
};

constexpr Meaningful kHfKeys[] = {
    {"_remove_final_layer_norm", "false"},
    {"activation_function", "\"silu\""},
    {"add_cross_attention", "false"},
    {"alibi", "false"},
    {"apply_residual_connection_post_layernorm", "false"},
    {"attn_uses_sequence_id", "false"},
    {"attention_bias", "false"},
    {"attention_chunk_size", "null"},
    {"attention_k_eq_v", "false"},
    {"attention_multiplier", "null"},
    {"attn_logit_softcapping", "null"},
    {"clip_qkv", "null"},
    {"compression_config", "null"},
    {"conv_bias", "false"},
    {"do_layer_norm_before", "true"},
    {"embedding_multiplier", "1"},
    {"enable_moe_block", "false"},
    {"final_logit_softcapping", "null"},
    {"first_k_dense_replace", "0"},
    {"full_attention", "null"},  // in rope_parameters: a rope for each kind of layer
    {"hidden_act", "\"silu\""},
    {"hidden_activation", "\"silu\""},
    {"is_causal", "true"},
    {"is_encoder_decoder", "false"},
    {"layer_norm_elementwise_affine", "true"},
    {"layer_types", "null"},
    {"llama_4_scaling_beta", "0"},  // in rope_parameters: queries grow with their positions
    {"lm_head_bias", "false"},
    {"mamba_proj_bias", "false"},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"mlp_bias", "false"},
    {"moe_layer_freq", "1"},
    {"mrope_section", "null"},
    {"n_group", "1"},
    {"n_routed_experts", "0"},
    {"n_shared_experts", "0"},
    {"no_bias", "true"},
    {"no_rope_layers", "null"},
    {"num_experts", "0"},
    {"num_kv_shared_layers", "0"},
    {"num_local_experts", "0"},
    {"parallel_attn", "false"},
    {"partial_rotary_factor", "1"},
    {"prefix_lm", "false"},
    {"projectors_bias", "false"},
    {"qk_layernorm", "false"},
    {"qk_ln", "false"},
    {"quantization_config", "null"},
    {"query_pre_attn_scalar", "null"},
    {"residual_multiplier", "1"},
    {"rope_interleaved", "false"},
    {"routed_scaling_factor", "1"},
    {"rotary_pct", "1"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"scale_attn_weights", "true"},
    {"scoring_func", "\"softmax\""},
    {"shared_expert_intermediate_size", "0"},
    {"sliding_attention", "null"},
    {"sliding_window_pattern", "null"},
    {"softmax_scale", "null"},
    {"topk_group", "1"},
    {"use_bidirectional_attention", "false"},
    {"use_bias", "false"},
    {"use_mrope", "false"},
    {"use_parallel_residual", "false"},
    {"use_qk_norm", "false"},
    {"use_qkv_bias", "false"},
    {"use_sliding_window", "false"},
};

constexpr Meaningful kGgufKeys[] = {
    {"attention.causal", "true"},
    {"attention.clamp_kqv", "0"},
    {"attention.max_alibi_bias", "0"},
    {"attention.scale", "0"},
    {"attn_logit_softcapping", "0"},
    {"attention.sliding_window_pattern", "0"},
    {"attention.temperature_length", "0"},
    {"attention.temperature_scale", "0"},
    {"embedding_scale", "1"},
    {"expert_count", "0"},
    {"expert_gating_func", "1"},
    {"expert_group_count", "1"},
    {"expert_shared_count", "0"},
    {"expert_weights_scale", "1"},
    {"final_logit_softcapping", "0"},
    {"logit_scale", "1"},
    {"pooling_type", "0"},
    {"residual_scale", "1"},
    {"rope.dimension_sections", "0"},
    {"rope.dimension_count_swa", "0"},
    {"rope.scaling.attn_factor", "1"},
    {"rope.scaling.yarn_attn_factor", "1"},
    {"rope.scaling.yarn_ext_factor", "1"},
    {"rope.scaling.yarn_log_multiplier", "0"},
    {"use_parallel_residual", "false"},
};

bool IsNeutral(const Json& value, const char* neutral) {
  const Json wanted = Json::parse(neutral);
  const bool is_synonym = wanted == "silu" && value == "swish";
  return value.is_null() || value == wanted || is_synonym;
}

/// Returns a metadata value as JSON. A list becomes an empty list: its contents do not matter, because no list is a
/// neutral value.
Json AsJson(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
          return v;
        } else {
          return Json::array();
        }
      },
      value);
}

}  // namespace

HfConfig::HfConfig(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json_.is_object()) Fail("{}: expected an object", path_);
}

bool HfConfig::Has(const char* key) const {
  read_.insert(key);
  return json_.contains(key) && !json_[key].is_null();
}

const Json& HfConfig::At(const char* key) const {
  if (!Has(key)) Fail("{}: {} is missing", path_, key);
  return json_[key];
}

int64_t HfConfig::Count(const char* key) const {
  const Json& value = At(key);
  if (!value.is_number_integer()) Fail("{}: {} must be an integer", path_, key);
  return value.get<int64_t>();
}

double HfConfig::Real(const char* key, double otherwise) const {
  if (!Has(key)) return otherwise;
  if (!json_[key].is_number()) Fail("{}: {} must be a number", path_, key);
  return json_[key].get<double>();
}

double HfConfig::RealOrNull(const char* key, double otherwise) const {
  return Real(key, json_.contains(key) ? 0 : otherwise);
}

bool HfConfig::Flag(const char* key, bool otherwise) const {
  if (!Has(key)) return otherwise;
  if (!json_[key].is_boolean()) Fail("{}: {} must be true or false", path_, key);
  return json_[key].get<bool>();
}

std::string HfConfig::Text(const char* key, const std::string& otherwise) const {
  if (!Has(key)) return otherwise;
  if (!json_[key].is_string()) Fail("{}: {} must be a string", path_, key);
  return json_[key].get<std::string>();
}

std::vector<std::string> HfConfig::Texts(const char* key) const {
  std::vector<std::string> texts;
  if (!Has(key)) return texts;
  const Json& value = json_[key];
  for (const Json& text : value.is_array() ? value : Json::array({value})) {
    if (!text.is_string()) Fail("{}: {} must be a list of strings", path_, key);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::vector<double> HfConfig::Reals(const char* key) const {
  std::vector<double> numbers;
  if (!Has(key)) return numbers;
  if (!json_[key].is_array()) Fail("{}: {} must be a list of numbers", path_, key);
  for (const Json& number : json_[key]) {
    if (!number.is_number()) Fail("{}: {} must be a list of numbers", path_, key);
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

std::vector<double> HfConfig::RealsOfLayers(const char* key, size_t layers) const {
  std::vector<double> numbers = Reals(key);
  if (!numbers.empty() && numbers.size() != layers)
    Fail("{}: {} lists {} layers of {}", path_, key, numbers.size(), layers);
  return numbers;
}

std::vector<TokenId> HfConfig::TokenIds(const char* key) const {
  std::vector<TokenId> ids;
  if (!Has(key)) return ids;
  const Json& value = json_[key];
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    const bool fits = id.is_number_integer() && id >= 0 && id < INT32_MAX;
    if (!fits) Fail("{}: {} must be token ids", path_, key);
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

void HfConfig::RefuseWhatNobodyRead() const {
  for (const auto& [key, neutral] : kHfKeys) {
    if (read_.contains(key) || !json_.contains(key) || IsNeutral(json_[key], neutral)) continue;
    Fail("{}: {} = {} is not supported for this architecture", path_, key, DumpJson(json_[key]).substr(0, 100));
  }
}

void HfConfig::RefuseOtherKeys() const {
  for (const auto& [key, value] : json_.items()) {
    if (!read_.contains(key)) Fail("{}: {} is not supported", path_, key.substr(0, 100));
  }
}

GgufConfig::GgufConfig(const GgufFile& gguf, std::string architecture)
    : gguf_(gguf), prefix_(std::move(architecture) + ".") {}

std::string GgufConfig::Full(const char* key) const {
  read_.insert(key);
  return prefix_ + key;
}

bool GgufConfig::Has(const char* key) const { return gguf_.metadata.contains(Full(key)); }
int64_t GgufConfig::Count(const char* key) const { return gguf_.Get<int64_t>(Full(key)); }
double GgufConfig::Real(const char* key) const { return gguf_.Get<double>(Full(key)); }

std::string GgufConfig::Text(const char* key, const std::string& otherwise) const {
  const auto* value = gguf_.Find<std::string>(Full(key));
  return value != nullptr ? *value : otherwise;
}

bool GgufConfig::IsList(const char* key) const {
  const auto found = gguf_.metadata.find(Full(key));
  return found != gguf_.metadata.end() && std::holds_alternative<std::vector<int64_t>>(found->second);
}

std::vector<int64_t> GgufConfig::Counts(const char* key) const {
  const auto* values = gguf_.Find<std::vector<int64_t>>(Full(key));
  return values != nullptr ? *values : std::vector<int64_t>();
}

void GgufConfig::RefuseWhatNobodyRead() const {
  for (const auto& [key, neutral] : kGgufKeys) {
    const auto found = gguf_.metadata.find(prefix_ + key);
    if (read_.contains(key) || found == gguf_.metadata.end()) continue;
    const Json value = AsJson(found->second);
    if (IsNeutral(value, neutral)) continue;
    Fail("{}: metadata {}{} = {} is not supported for this architecture", gguf_.path, prefix_, key,
         DumpJson(value).substr(0, 100));
  }
}

}  // namespace quire
