#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/types.h"

namespace quire {

/// How positions rotate queries and keys.
struct Rope {
  double theta = 10000;
  /// What frequencies are divided by; 1: nothing.
  double factor = 1;
  /// Llama 3's scaling: wavelengths beyond original_max_position / low_frequency_factor are stretched by factor, those
  /// within original_max_position / high_frequency_factor are kept. Otherwise ("linear") factor holds for all.
  bool llama3 = false;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_max_position = 8192;
  std::vector<float> divisors;  // GGUF's rope_freqs: divides frequency i as well; empty for none
};

/// What may differ from layer to layer.
struct LayerSpec {
  int64_t window = 0;  // tokens a query sees, itself counted in; 0: all
  bool operator==(const LayerSpec&) const = default;
};

/// What a model computes: plain data, read once from config.json or GGUF metadata and never changed. Everything that
/// follows from the kind of a model is here or in its list of weights (comm/model/architecture.h); the forward pass
/// reads this, and knows no families.
struct ModelSpec {
  std::string architecture;  // a name of the table in comm/model/architecture.cc
  int64_t hidden_size = 0;
  int64_t num_heads = 0;     // query heads
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position = 0;  // longest sequence the model was trained for
  double rms_norm_epsilon = 0;
  Rope rope;
  bool tied_embeddings = false;  // the output head is the embedding
  bool qkv_bias = false;         // queries, keys and values have biases
  bool qk_norm = false;          // queries and keys are normed head by head before they rotate
  /// The file has query and key rows for rotation of neighbouring dimensions, as GGUF's of the Llama family; elsewhere
  /// dimension i rotates with i + half.
  bool interleaved_rope_rows = false;
  std::vector<LayerSpec> layers;
  std::vector<TokenId> eos_token_ids;

  int64_t num_layers() const { return static_cast<int64_t>(layers.size()); }
  /// Tokens behind which no layer looks; 0 where some layer sees all.
  int64_t window() const {
    int64_t widest = layers.empty() ? 0 : layers[0].window;
    for (const LayerSpec& layer : layers)
      widest = layer.window == 0 || widest == 0 ? 0 : std::max(widest, layer.window);
    return widest;
  }
};

/// Throws Error beginning with `path` when a value is out of its range or two contradict each other.
void CheckSpec(const ModelSpec& spec, const std::string& path);

/// Every field as text: specs that say the same have the same text, and others another.
std::string TextOf(const ModelSpec& spec);

/// inverse frequency of rotation i in fp32, the way HF computes it: [head_dim / 2].
std::vector<float> RopeFrequencies(const ModelSpec& spec);

}  // namespace quire
