#include "comm/model/model_spec.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "comm/error.h"

namespace quire {

namespace {

constexpr int64_t kMaxExtent = 1 << 24;  // far above any real model; keeps later products within int64

void CheckRange(const std::string& path, const char* name, int64_t value) {
  if (value < 1 || value > kMaxExtent) Fail("{}: {} = {} is out of range", path, name, value);
}

void CheckSizes(const ModelSpec& s, const std::string& path) {
  CheckRange(path, "hidden_size", s.hidden_size);
  CheckRange(path, "num_hidden_layers", s.num_layers());
  CheckRange(path, "num_attention_heads", s.num_heads);
  CheckRange(path, "num_key_value_heads", s.num_kv_heads);
  CheckRange(path, "head_dim", s.head_dim);
  CheckRange(path, "intermediate_size", s.intermediate_size);
  CheckRange(path, "vocab_size", s.vocab_size);
  CheckRange(path, "max_position_embeddings", s.max_position);
  for (const LayerSpec& layer : s.layers) {
    if (layer.window != 0) CheckRange(path, "sliding_window", layer.window);
  }
  if (s.num_heads % s.num_kv_heads != 0) {
    Fail("{}: {} query heads do not divide over {} key/value heads", path, s.num_heads, s.num_kv_heads);
  }
  if (s.head_dim % 2 != 0 && s.position == Position::kRope) Fail("{}: head_dim {} must be even", path, s.head_dim);
  if (s.rotated_dims() % 2 != 0 || s.rotated_dims() > s.head_dim || s.rope.rotated_dims < 0) {
    Fail("{}: {} rotated dimensions of {} must be an even part of them", path, s.rope.rotated_dims, s.head_dim);
  }
  if (s.position_offset < 0 || s.position_offset > kMaxExtent) {
    Fail("{}: positions from {} on are out of range", path, s.position_offset);
  }
}

std::string TextOf(const Rope& rope) {
  const auto& [rotated, theta, factor, llama3, low, high, original, divisors] = rope;
  return fmt::format("{} {} {} {} {} {} {} {}", rotated, theta, factor, llama3, low, high, original,
                     fmt::join(divisors, ","));
}

}  // namespace

void CheckSpec(const ModelSpec& s, const std::string& path) {
  CheckSizes(s, path);
  const Rope& rope = s.rope;
  if (!(s.rms_norm_epsilon > 0) || !(rope.theta > 0) || !(rope.factor > 0)) {
    Fail("{}: rms_norm_eps, rope_theta and the rope factor must be positive", path);
  }
  if (s.rms_norm_epsilon > 1 || rope.theta < 1 || rope.theta > 1e12 || rope.factor < 1e-3 || rope.factor > 1e6) {
    Fail("{}: rms_norm_eps {}, rope_theta {} or rope factor {} is out of range", path, s.rms_norm_epsilon, rope.theta,
         rope.factor);
  }
  if (rope.llama3 && !(rope.low_frequency_factor > 0 && rope.high_frequency_factor > rope.low_frequency_factor &&
                       rope.original_max_position >= 1)) {
    Fail("{}: high_freq_factor must be above low_freq_factor, and original_max_position_embeddings at least 1", path);
  }
  if (!(s.alibi_max_bias > 0) || s.alibi_max_bias > 64) {
    Fail("{}: a largest exponent {} of ALiBi is out of range", path, s.alibi_max_bias);
  }
  for (const TokenId id : s.eos_token_ids) {
    if (id < 0 || id >= s.vocab_size) {
      Fail("{}: eos token {} lies outside the vocabulary of {}", path, id, s.vocab_size);
    }
  }
}

// The bindings name every member, so that a new one does not compile until it is told here, too.
std::string TextOf(const ModelSpec& spec) {
  const auto& [architecture, hidden, heads, kv_heads, head_dim, mlp, vocab, max_position, epsilon, rope, tied, qkv_bias,
               qk_norm, norm, norm_bias, embedding_norm, out_bias, mlp_bias, head_bias, gated, activation, parallel,
               shared_norm, position, position_offset, alibi, fused_by_head, transposed, interleaved, layers, eos] =
      spec;
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} [{}] {} {} {} {} [{}]", architecture, hidden, heads,
                                 kv_heads, head_dim, mlp, vocab, max_position, epsilon, TextOf(rope), tied, qkv_bias,
                                 qk_norm, interleaved, fmt::join(eos, ","));
  text += fmt::format(" {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(norm), norm_bias,
                      embedding_norm, out_bias, mlp_bias, head_bias, gated, static_cast<int>(activation), parallel,
                      shared_norm, static_cast<int>(position), position_offset, alibi, fused_by_head, transposed);
  for (const LayerSpec& layer : layers) {
    const auto& [window] = layer;
    text += fmt::format(" {}", window);
  }
  return text;
}

std::vector<float> RopeFrequencies(const ModelSpec& spec) {
  const Rope& rope = spec.rope;
  std::vector<float> frequencies;
  const int64_t rotated = spec.rotated_dims();
  for (int64_t i = 0; i < rotated / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotated);
    const float plain = 1.0f / static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    double frequency = plain;
    if (!rope.llama3) {
      frequency /= rope.factor;
    } else {
      const double turns = rope.original_max_position * frequency / (2 * std::numbers::pi);
      const double smooth =
          (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
      if (turns < rope.low_frequency_factor) {
        frequency /= rope.factor;
      } else if (turns <= rope.high_frequency_factor) {
        frequency = (1 - smooth) * frequency / rope.factor + smooth * frequency;
      }
    }
    if (!rope.divisors.empty()) frequency /= rope.divisors[static_cast<size_t>(i)];
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

std::vector<float> AlibiSlopes(const ModelSpec& spec) {
  std::vector<float> slopes;
  if (spec.position != Position::kAlibi) return slopes;
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(spec.num_heads)));
  for (int64_t h = 0; h < spec.num_heads; ++h) {
    const auto of_power_of_two = static_cast<double>(h + 1) / static_cast<double>(whole);
    const auto between = static_cast<double>(2 * (h - whole) + 1) / static_cast<double>(2 * whole);
    slopes.push_back(static_cast<float>(std::exp2(-spec.alibi_max_bias * (h < whole ? of_power_of_two : between))));
  }
  return slopes;
}

}  // namespace quire
