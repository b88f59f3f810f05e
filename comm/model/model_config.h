#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/json.h"
#include "comm/types.h"

namespace quire {

struct GgufFile;

/// What a model is, read once from config.json or GGUF metadata and never changed.
struct ModelConfig {
  std::string architecture;  // "llama" or "mistral": the same layers, but a mistral may have a sliding window
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;     // query heads
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position = 0;    // longest sequence the model was trained for
  int64_t sliding_window = 0;  // tokens a query sees, itself counted in; 0: all
  double rms_norm_epsilon = 0;
  double rope_theta = 10000;
  bool tied_embeddings = false;
  /// GGUF stores query and key rows for rotation of neighbouring dimensions; HF rotates dimension i with i + half.
  bool interleaved_rope_rows = false;
  std::vector<TokenId> eos_token_ids;

  /// Llama 3's frequency scaling; factor 1 means none. Wavelengths beyond original_max_position / low_frequency_factor
  /// are stretched by factor, those within original_max_position / high_frequency_factor are kept.
  struct RopeScaling {
    double factor = 1;
    bool llama3 = false;  // false: every frequency is divided by factor ("linear")
    double low_frequency_factor = 1;
    double high_frequency_factor = 4;
    double original_max_position = 8192;
  } rope_scaling;
  std::vector<float> rope_divisors;  // GGUF's rope_freqs: divides frequency i; empty for none
};

/// Reads HF's config.json (text) and, when not empty, generation_config.json. Errors begin with `path`.
ModelConfig ConfigFromHf(const std::string& config_json, const std::string& generation_json, const std::string& path);

ModelConfig ConfigFromGguf(const GgufFile& gguf);

/// inverse frequency of rotation i in fp32, the way HF computes it: [head_dim / 2].
std::vector<float> RopeFrequencies(const ModelConfig& config);

}  // namespace quire
