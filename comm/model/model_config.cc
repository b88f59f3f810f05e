#include "comm/model/model_config.h"

#include <cmath>
#include <numbers>

#include "comm/error.h"
#include "comm/model/gguf.h"

namespace quire {

namespace {

constexpr int64_t kMaxExtent = 1 << 24;  // far above any real model; keeps later products within int64

/// config.json's object with errors that name the file and the key.
class Fields {
 public:
  Fields(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json_.is_object()) Fail("{}: expected an object", path_);
  }
  bool Has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  int64_t Count(const char* key) const {
    const Json& value = At(key);
    if (!value.is_number_integer()) Fail("{}: {} must be an integer", path_, key);
    return value.get<int64_t>();
  }
  int64_t Count(const char* key, int64_t otherwise) const { return Has(key) ? Count(key) : otherwise; }
  double Real(const char* key, double otherwise) const {
    if (!Has(key)) return otherwise;
    if (!json_[key].is_number()) Fail("{}: {} must be a number", path_, key);
    return json_[key].get<double>();
  }
  bool Flag(const char* key) const {
    if (!Has(key)) return false;
    if (!json_[key].is_boolean()) Fail("{}: {} must be true or false", path_, key);
    return json_[key].get<bool>();
  }
  std::string Text(const char* key, const std::string& otherwise) const {
    if (!Has(key)) return otherwise;
    if (!json_[key].is_string()) Fail("{}: {} must be a string", path_, key);
    return json_[key].get<std::string>();
  }
  const std::string& path() const { return path_; }
  const Json& At(const char* key) const {
    if (!Has(key)) Fail("{}: {} is missing", path_, key);
    return json_[key];
  }

 private:
  const Json& json_;
  std::string path_;
};

std::vector<TokenId> TokenIds(const Fields& fields, const char* key) {
  std::vector<TokenId> ids;
  if (!fields.Has(key)) return ids;
  const Json& value = fields.At(key);
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    const bool fits = id.is_number_integer() && id >= 0 && id < INT32_MAX;
    if (!fits) Fail("{}: {} must be token ids", fields.path(), key);
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

void ReadRope(const Fields& fields, const std::string& path, ModelConfig& config) {
  config.rope_theta = fields.Real("rope_theta", config.rope_theta);
  // Older files say rope_scaling, newer ones rope_parameters (which then also holds rope_theta).
  const char* key = fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.Has(key)) return;
  const Fields rope(fields.At(key), path + ": " + key);
  config.rope_theta = rope.Real("rope_theta", config.rope_theta);
  const std::string type = rope.Text("rope_type", rope.Text("type", "default"));
  if (type == "default") return;
  if (type != "linear" && type != "llama3") Fail("{}: {} of type {} is not supported", path, key, type);
  config.rope_scaling.llama3 = type == "llama3";
  config.rope_scaling.factor = rope.Real("factor", 1);
  config.rope_scaling.low_frequency_factor = rope.Real("low_freq_factor", 1);
  config.rope_scaling.high_frequency_factor = rope.Real("high_freq_factor", 4);
  config.rope_scaling.original_max_position = rope.Real("original_max_position_embeddings", 8192);
}

void CheckRange(const std::string& path, const char* name, int64_t value) {
  if (value < 1 || value > kMaxExtent) Fail("{}: {} = {} is out of range", path, name, value);
}

void Validate(const ModelConfig& c, const std::string& path) {
  if (c.architecture != "llama" && c.architecture != "mistral")
    Fail("{}: architecture \"{}\" is not supported; supported: llama, mistral", path, c.architecture);
  CheckRange(path, "hidden_size", c.hidden_size);
  CheckRange(path, "num_hidden_layers", c.num_layers);
  CheckRange(path, "num_attention_heads", c.num_heads);
  CheckRange(path, "num_key_value_heads", c.num_kv_heads);
  CheckRange(path, "head_dim", c.head_dim);
  CheckRange(path, "intermediate_size", c.intermediate_size);
  CheckRange(path, "vocab_size", c.vocab_size);
  CheckRange(path, "max_position_embeddings", c.max_position);
  if (c.sliding_window != 0) CheckRange(path, "sliding_window", c.sliding_window);
  if (c.num_heads % c.num_kv_heads != 0) {
    Fail("{}: {} query heads do not divide over {} key/value heads", path, c.num_heads, c.num_kv_heads);
  }
  if (c.head_dim % 2 != 0) Fail("{}: head_dim {} must be even", path, c.head_dim);
  if (!(c.rms_norm_epsilon > 0) || !(c.rope_theta > 0) || !(c.rope_scaling.factor > 0)) {
    Fail("{}: rms_norm_eps, rope_theta and the rope factor must be positive", path);
  }
  if (c.rms_norm_epsilon > 1 || c.rope_theta < 1 || c.rope_theta > 1e12 || c.rope_scaling.factor < 1e-3 ||
      c.rope_scaling.factor > 1e6) {
    Fail("{}: rms_norm_eps {}, rope_theta {} or rope factor {} is out of range", path, c.rms_norm_epsilon, c.rope_theta,
         c.rope_scaling.factor);
  }
  const auto& rope = c.rope_scaling;
  if (rope.llama3 && !(rope.low_frequency_factor > 0 && rope.high_frequency_factor > rope.low_frequency_factor &&
                       rope.original_max_position >= 1)) {
    Fail("{}: high_freq_factor must be above low_freq_factor, and original_max_position_embeddings at least 1", path);
  }
  for (const TokenId id : c.eos_token_ids) {
    if (id < 0 || id >= c.vocab_size)
      Fail("{}: eos token {} lies outside the vocabulary of {}", path, id, c.vocab_size);
  }
}

}  // namespace

ModelConfig ConfigFromHf(const std::string& config_json, const std::string& generation_json, const std::string& path) {
  const Json json = ParseJson(config_json, path);
  const Fields fields(json, path);
  ModelConfig c;
  c.architecture = fields.Text("model_type", "");
  if (fields.Flag("attention_bias") || fields.Flag("mlp_bias")) Fail("{}: biases are not supported", path);
  if (const auto act = fields.Text("hidden_act", "silu"); act != "silu")
    Fail("{}: hidden_act {} is not supported", path, act);
  c.hidden_size = fields.Count("hidden_size");
  c.num_layers = fields.Count("num_hidden_layers");
  c.num_heads = fields.Count("num_attention_heads");
  c.num_kv_heads = fields.Count("num_key_value_heads", c.num_heads);
  c.head_dim = fields.Count("head_dim", c.num_heads > 0 ? c.hidden_size / c.num_heads : 0);
  c.intermediate_size = fields.Count("intermediate_size");
  c.vocab_size = fields.Count("vocab_size");
  c.max_position = fields.Count("max_position_embeddings");
  // HF attends to the whole context in a llama, whatever its file says of a window.
  if (c.architecture == "mistral") c.sliding_window = fields.Count("sliding_window", 0);
  c.rms_norm_epsilon = fields.Real("rms_norm_eps", 1e-6);
  c.tied_embeddings = fields.Flag("tie_word_embeddings");
  ReadRope(fields, path, c);
  c.eos_token_ids = TokenIds(fields, "eos_token_id");
  if (!generation_json.empty()) {
    const Json generation = ParseJson(generation_json, path + " (generation_config.json)");
    const auto ids = TokenIds(Fields(generation, path), "eos_token_id");
    if (!ids.empty()) c.eos_token_ids = ids;
  }
  Validate(c, path);
  return c;
}

ModelConfig ConfigFromGguf(const GgufFile& gguf) {
  ModelConfig c;
  c.architecture = gguf.Get<std::string>("general.architecture");
  if (c.architecture != "llama") {
    Fail("{}: architecture \"{}\" is not supported; supported: llama", gguf.path, c.architecture);
  }
  const std::string prefix = c.architecture + ".";
  const auto count = [&](const char* key) { return gguf.Get<int64_t>(prefix + key); };
  const auto count_or = [&](const char* key, int64_t otherwise) {
    const auto* value = gguf.Find<int64_t>(prefix + key);
    return value != nullptr ? *value : otherwise;
  };
  c.hidden_size = count("embedding_length");
  c.num_layers = count("block_count");
  c.num_heads = count("attention.head_count");
  c.num_kv_heads = count_or("attention.head_count_kv", c.num_heads);
  c.head_dim = count_or("attention.key_length", c.num_heads > 0 ? c.hidden_size / c.num_heads : 0);
  if (count_or("rope.dimension_count", c.head_dim) != c.head_dim)
    Fail("{}: rotation of a part of each head is not supported", gguf.path);
  c.intermediate_size = count("feed_forward_length");
  c.max_position = count("context_length");
  c.sliding_window = count_or("attention.sliding_window", 0);
  c.rms_norm_epsilon = static_cast<float>(gguf.Get<double>(prefix + "attention.layer_norm_rms_epsilon"));
  if (const auto* theta = gguf.Find<double>(prefix + "rope.freq_base")) c.rope_theta = *theta;
  if (const auto* type = gguf.Find<std::string>(prefix + "rope.scaling.type"); type != nullptr && *type != "none") {
    if (*type != "linear") Fail("{}: rope scaling of type {} is not supported", gguf.path, *type);
    c.rope_scaling.factor = gguf.Get<double>(prefix + "rope.scaling.factor");
  }
  c.vocab_size = static_cast<int64_t>(gguf.Get<std::vector<std::string>>("tokenizer.ggml.tokens").size());
  c.tied_embeddings = !gguf.tensors.contains("output.weight");
  c.interleaved_rope_rows = true;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (const auto* id = gguf.Find<int64_t>(key)) {
      c.eos_token_ids.push_back(*id >= 0 && *id < INT32_MAX ? static_cast<TokenId>(*id) : -1);  // Validate refuses -1
    }
  }
  Validate(c, gguf.path);
  return c;
}

std::vector<float> RopeFrequencies(const ModelConfig& config) {
  const auto& scaling = config.rope_scaling;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < config.head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    const float plain = 1.0f / static_cast<float>(std::pow(config.rope_theta, static_cast<double>(exponent)));
    double frequency = plain;
    if (!scaling.llama3) {
      frequency /= scaling.factor;
    } else {
      const double turns = scaling.original_max_position * frequency / (2 * std::numbers::pi);
      const double smooth =
          (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
      if (turns < scaling.low_frequency_factor) {
        frequency /= scaling.factor;
      } else if (turns <= scaling.high_frequency_factor) {
        frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
      }
    }
    if (!config.rope_divisors.empty()) frequency /= config.rope_divisors[static_cast<size_t>(i)];
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

}  // namespace quire
