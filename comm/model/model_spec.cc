#include "comm/model/model_spec.h"

#include <algorithm>
#include <cmath>

#include "comm/base/error.h"

namespace quire {

namespace {

// The most experts of all layers together: several times the number of any real model. The limit bounds the number of
// tensors, because each expert may have tensors of its own.
constexpr int64_t kMaxExpertsOfLayers = 1 << 17;
constexpr int64_t kMaxExtent = 1 << 24;  // far above any real model; products of extents stay within int64

void CheckRange(const std::string& path, const char* name, int64_t value) {
  if (value < 1 || value > kMaxExtent) Fail("{}: {} = {} is out of range", path, name, value);
}

void CheckSizes(const ModelSpec& s, const std::string& path) {
  CheckRange(path, "hidden_size", s.hidden_size);
  CheckRange(path, "num_hidden_layers", s.num_layers());
  CheckRange(path, "num_attention_heads", s.num_heads);
  CheckRange(path, "vocab_size", s.vocab_size);
  CheckRange(path, "max_position_embeddings", s.max_position);
  if (s.position_offset < 0 || s.position_offset > kMaxExtent) {
    Fail("{}: positions from {} on are out of range", path, s.position_offset);
  }
}

/// Aborts when layer `i` is to read the keys and values of an earlier layer that has other heads or another rotation.
void CheckSharing(const ModelSpec& s, size_t i) {
  const LayerSpec& layer = s.layers[i];
  if (layer.kv_from_layer == -1) return;
  const auto from = static_cast<size_t>(layer.kv_from_layer);
  QUIRE_CHECK(from < i && s.layers[from].has_kv(), "layer {} cannot read the keys of layer {}", i, from);
  const LayerSpec& owner = s.layers[from];
  QUIRE_CHECK(s.qk_norm != QkNorm::kWhole, "layer {} has no keys to norm together with its queries", i);
  QUIRE_CHECK(layer.head_dim == owner.head_dim && layer.num_kv_heads == owner.num_kv_heads && layer.rope == owner.rope,
              "layer {} has other heads than layer {}, whose keys it reads", i, from);
}

/// Throws Error when values have a size that decoders do not support. Aborts when a model with such values also has a
/// feature that decoders do not support together with them.
void CheckValues(const ModelSpec& s, const LayerSpec& layer, const std::string& path) {
  if (layer.value_dim == 0) return;
  CheckRange(path, "v_head_dim", layer.value_dim);
  if (layer.value_dim > layer.head_dim)
    Fail("{}: values of {} numbers, more than keys have ({}), are not supported", path, layer.value_dim,
         layer.head_dim);
  QUIRE_CHECK(!s.attention_gate && !s.value_norm && !layer.values_are_keys && s.latent.rank == 0 && !s.bidirectional &&
                  layer.kv_from_layer == -1,
              "{}: values of another size in such layers", path);
}

void CheckLayers(const ModelSpec& s, const std::string& path) {
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const LayerSpec& layer = s.layers[i];
    CheckRange(path, "num_key_value_heads", layer.num_kv_heads);
    CheckRange(path, "head_dim", layer.head_dim);
    CheckValues(s, layer, path);
    CheckRange(path, "intermediate_size", layer.intermediate_size);
    if (layer.window != 0) CheckRange(path, "sliding_window", layer.window);
    if (layer.chunk != 0) CheckRange(path, "attention_chunk_size", layer.chunk);
    QUIRE_CHECK(layer.chunk == 0 || (layer.window == 0 && !s.bidirectional), "{}: chunks of such attention", path);
    QUIRE_CHECK(layer.chunk == 0 || layer.chunk == s.chunk(), "{}: chunks of several sizes", path);
    if (s.num_heads % layer.num_kv_heads != 0) {
      Fail("{}: {} query heads do not divide over {} key/value heads", path, s.num_heads, layer.num_kv_heads);
    }
    QUIRE_CHECK(layer.rope >= -1 && layer.rope < std::ssize(s.ropes), "{}: no rope {}", path, layer.rope);
    const int64_t rotated = s.rotated_dims(layer);
    if (rotated < 0 || rotated % 2 != 0 || rotated > layer.head_dim) {
      Fail("{}: {} of {} dimensions of a head cannot rotate in pairs", path, rotated, layer.head_dim);
    }
    if (rotated != 0 && rotated != RotatedDims(s, layer.rope)) {
      Fail(
          "{}: layers that rotate alike have heads of several sizes, which is not supported: {} and {} dimensions "
          "rotate",
          path, RotatedDims(s, layer.rope), rotated);
    }
    const double growth = rotated > 0 ? s.ropes[static_cast<size_t>(layer.rope)].query_growth : 0;
    if (growth != 0 && rotated != layer.head_dim) {
      Fail("{}: queries that grow with their positions and rotate in part are not supported", path);
    }
    CheckSharing(s, i);
  }
}

void CheckRopes(const ModelSpec& s, const std::string& path) {
  for (int64_t i = 0; i < std::ssize(s.ropes); ++i) {
    const Rope& rope = s.ropes[static_cast<size_t>(i)];
    const auto pairs = static_cast<size_t>(RotatedDims(s, i) / 2);
    CheckRope(rope, path);
    for (const std::vector<float>* divisors : {&rope.divisors, &rope.long_divisors}) {
      if (divisors->empty() || divisors->size() == pairs) continue;
      Fail("{}: {} factors for {} frequencies of rotation", path, divisors->size(), pairs);
    }
  }
}

void CheckMixtures(const ModelSpec& s, const std::string& path) {
  const bool clamps = s.activation == Activation::kClampedSilu;
  QUIRE_CHECK(!clamps || s.num_mixture_layers() == s.num_layers(), "{}: clamped gates outside of mixtures", path);
  QUIRE_CHECK(!clamps || s.mixture.shared_intermediate_size == 0, "{}: clamped gates of a shared expert", path);
  if (s.num_mixture_layers() == 0) return;
  CheckMixture(s.mixture, path);
  if (s.mixture.experts * s.num_mixture_layers() > kMaxExpertsOfLayers) {
    Fail("{}: {} layers of {} experts; there may be {} experts in all", path, s.num_mixture_layers(), s.mixture.experts,
         kMaxExpertsOfLayers);
  }
  if (clamps && !(s.gate_limit >= 1e-3 && s.gate_limit <= 1e6)) {
    Fail("{}: a limit of gates of {} is out of range", path, s.gate_limit);
  }
  QUIRE_CHECK(!s.mlp_bias && !s.parallel_block && !s.shared_norm, "{}: a mixture of such MLPs", path);
  QUIRE_CHECK(s.gated_mlp || (!clamps && !s.mixture.expert_biases), "{}: such experts without gates", path);
}

void CheckMixers(const ModelSpec& s, const std::string& path) {
  if (s.num_state_layers() == 0) return;
  CheckRecurrence(s.recurrence, path);
  // States are stored in blocks of the KV pool. The size of a block follows from the keys and values. Without keys and
  // values the blocks would have no bytes.
  if (!std::ranges::any_of(s.layers, &LayerSpec::has_kv)) Fail("{}: models without attention are not supported", path);
  const Mixer mixer = std::ranges::find_if(s.layers, &LayerSpec::has_state)->mixer;
  const auto is_other = [&](const LayerSpec& layer) { return layer.has_state() && layer.mixer != mixer; };
  QUIRE_CHECK(std::ranges::none_of(s.layers, is_other), "{}: layers with states of several kinds", path);
  QUIRE_CHECK((mixer == Mixer::kShortConvolution) == (s.recurrence.channels > 0), "{}: sizes of other states", path);
  QUIRE_CHECK(s.norms_before && !s.parallel_block, "{}: layers with states in such blocks", path);
}

/// Aborts when a model with latent attention also has a feature of attention that decoders do not support together with
/// latents. Throws Error when a size is out of range.
void CheckLatents(const ModelSpec& s, const std::string& path) {
  if (s.latent.rank == 0) return;
  CheckLatentAttention(s.latent, path);
  for (const LayerSpec& layer : s.layers) {
    const bool is_plain = layer.has_kv() && layer.num_kv_heads == 1 && layer.window == 0 && layer.rope >= 0;
    QUIRE_CHECK(is_plain && layer.head_dim == s.latent.rotated_dim + s.latent.rank, "{}: latents of such layers", path);
  }
  QUIRE_CHECK(s.position == Position::kRope && s.qk_norm == QkNorm::kNone && !s.qkv_bias && !s.attention_gate &&
                  !s.attention_sinks && !s.parallel_block && s.attention_scale != 0,
              "{}: latents with such attention", path);
}

/// Throws Error when a size of token types, of the pooled head or of the relative bias is out of range. Aborts when a
/// decoder has a relative bias, or when an encoder has parts that encoders cannot have.
void CheckEncoder(const ModelSpec& s, const std::string& path) {
  if (s.token_types != 0) CheckRange(path, "type_vocab_size", s.token_types);
  CheckPooledHead(s.pooled_head, path);
  const auto& [buckets, reach] = s.relative_bias;
  QUIRE_CHECK(buckets == 0 || s.bidirectional, "{}: distances in a decoder", path);
  if (buckets != 0 && (buckets < 4 || buckets % 4 != 0 || buckets > 1024 || reach <= buckets / 4 || reach > 4096))
    Fail("{}: {} buckets for distances up to {} are not supported", path, buckets, reach);
  if (!s.bidirectional) return;
  QUIRE_CHECK(!s.has_head && s.num_state_layers() == 0 && s.latent.rank == 0, "{}: such layers in an encoder", path);
}

void CheckScales(const ModelSpec& s, const std::string& path) {
  QUIRE_CHECK(s.norms_sums != (s.norms_before || s.norms_after), "{}: norms of sums and others, or no norms", path);
  QUIRE_CHECK(!s.norms_sums || !s.parallel_block, "{}: norms of sums in parallel blocks", path);
  QUIRE_CHECK(s.residual_scale == 1 || (!s.out_bias && !s.mlp_bias), "{}: a scale of products and not biases", path);
  QUIRE_CHECK(!s.norms_after || s.residual_scale == 1, "{}: a scale of what was normed", path);
  CheckProductScales(s.scales, path);
  const bool plain = s.norms_before && !s.norms_after && !s.parallel_block && !s.out_bias && !s.mlp_bias;
  const bool plain_mlps = s.gated_mlp && s.num_mixture_layers() == 0;
  QUIRE_CHECK(s.scales == ProductScales() || plain, "{}: factors of such products", path);
  QUIRE_CHECK((s.scales.mlp_gate == 1 && s.scales.mlp_out == 1) || plain_mlps, "{}: factors of such MLPs", path);
  QUIRE_CHECK(!s.layer_scales || (s.norms_after && !s.parallel_block), "{}: layers that scale what is pending", path);
  QUIRE_CHECK(!s.value_norm || s.qk_norm == QkNorm::kHeads, "{}: a norm of values alone", path);
  QUIRE_CHECK(!s.gate_by_head || s.attention_gate, "{}: gates of heads that are not there", path);
  QUIRE_CHECK((!s.qk_norm_rotated && !s.qk_norm_plain) || s.qk_norm == QkNorm::kHeads, "{}: such norms", path);
  const auto norms_grown = [&](const LayerSpec& layer) {
    return layer.qk_norm && layer.rope >= 0 && s.ropes[static_cast<size_t>(layer.rope)].query_growth != 0;
  };
  QUIRE_CHECK(!s.qk_norm_rotated || std::ranges::none_of(s.layers, norms_grown), "{}: such norms after rotation", path);
  if (s.layer_input_size != 0) {
    CheckRange(path, "hidden_size_per_layer_input", s.layer_input_size);
    CheckRange(path, "hidden_size_per_layer_input times num_hidden_layers", s.layer_input_size * s.num_layers());
  }
  for (const auto& [name, value] : {std::pair{"embeddings", s.embedding_scale},
                                    {"residuals", s.residual_scale},
                                    {"logits", s.logit_scale},
                                    {"attention", AttentionScale(s, s.layers[0])}}) {
    if (!(std::abs(value) >= 1e-6 && std::abs(value) <= 1e6))
      Fail("{}: the scale of {}, {}, is out of range", path, name, value);
  }
  for (const auto& [name, value] : {std::pair{"attention's scores", s.score_cap}, {"logits", s.logit_cap}}) {
    if (!(value == 0 || (value >= 1e-3 && value <= 1e6)))
      Fail("{}: the cap of {}, {}, is out of range", path, name, value);
  }
}

}  // namespace

void CheckSpec(const ModelSpec& s, const std::string& path) {
  CheckSizes(s, path);
  CheckLayers(s, path);
  if (!(s.norm_epsilon > 0 && s.norm_epsilon <= 1)) {
    Fail("{}: an epsilon of norms of {} is out of range", path, s.norm_epsilon);
  }
  if (!(s.alibi_max_bias > 0) || s.alibi_max_bias > 64) {
    Fail("{}: a largest exponent {} of ALiBi is out of range", path, s.alibi_max_bias);
  }
  CheckRopes(s, path);
  CheckScales(s, path);
  CheckMixtures(s, path);
  CheckMixers(s, path);
  CheckLatents(s, path);
  CheckEncoder(s, path);
  for (const TokenId id : s.eos_token_ids) {
    if (id < 0 || id >= s.vocab_size) {
      Fail("{}: eos token {} lies outside the vocabulary of {}", path, id, s.vocab_size);
    }
  }
}

void ReadReach(ModelSpec& spec) {
  spec.longest_position = spec.max_position;
  if (spec.position != Position::kRope) return;
  const auto declared = static_cast<double>(spec.max_position);
  double reach = HUGE_VAL;
  bool made_for = true;
  for (size_t i = 0; i < spec.ropes.size(); ++i) {
    if (RotatedDims(spec, static_cast<int64_t>(i)) == 0 || spec.ropes[i].turning_pairs == 0) continue;
    reach = std::min(reach, ReachOf(spec.ropes[i], spec.max_position));
    const Rope& rope = spec.ropes[i];
    const bool is_counted = rope.scaling == RopeScaling::kLlama3 && declared > rope.original_max_position;
    made_for = made_for && rope.scaling != RopeScaling::kLinear && !is_counted;
  }
  if (!(reach > declared && reach <= kMaxExtent)) return;
  spec.longest_position = static_cast<int64_t>(reach);
  if (made_for) spec.max_position = spec.longest_position;
}

// The structured binding names every member, so a new member does not compile until it is added here.
std::string TextOf(const ModelSpec& spec) {
  const auto& [architecture, hidden, heads, vocab, max_position, longest, epsilon, ropes, tied, has_head, bidirectional,
               token_types, pooled_head, text_only, predicts, qkv_bias, qk_norm, qk_norm_rotated, qk_norm_plain,
               value_norm, norm, before, after, norms_sums, add_one, norm_bias, layer_scales, embedding_norm, out_bias,
               mlp_bias, head_bias, gated, activation, gate_limit, sinks, attention_gate, gate_by_head, parallel,
               shared_norm, position, position_offset, alibi, relative, fused_by_head, transposed, embedding_scale,
               attention_scale, residual_scale, logit_scale, scales, layer_input, score_cap, logit_cap, interleaved,
               quants, latent, mixture, recurrence, layers, eos] = spec;
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {} [{}]", architecture, hidden, heads, vocab, max_position,
                                 epsilon, tied, qkv_bias, static_cast<int>(qk_norm), interleaved, fmt::join(eos, ","));
  text += fmt::format(" {} {} {} {} {} {} {} {} {} {}", before, after, add_one, static_cast<int>(activation),
                      embedding_scale, attention_scale, residual_scale, logit_scale, score_cap, logit_cap);
  text += fmt::format(" {} {} {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(norm), norm_bias, embedding_norm,
                      out_bias, mlp_bias, head_bias, gated, parallel, shared_norm, static_cast<int>(position),
                      position_offset, alibi, fused_by_head, transposed);
  const auto& [method, bits, group, zero_offset, block_rows, block_cols] = quants;
  text +=
      fmt::format(" ({} {} {} {} {} {})", static_cast<int>(method), bits, group, zero_offset, block_rows, block_cols);
  for (const Rope& rope : ropes) text += fmt::format(" [{}]", TextOf(rope));
  text += fmt::format(" {} {} {} {} {} {} [{}] [{}]", gate_limit, sinks, attention_gate, value_norm, layer_scales,
                      layer_input, TextOf(mixture), TextOf(recurrence));
  text += fmt::format(" [{}] {} {} {}", TextOf(latent), has_head, text_only, longest);
  text += fmt::format(" {} {} {} {} {} [{}] {} {}", bidirectional, token_types, norms_sums, qk_norm_rotated,
                      gate_by_head, TextOf(pooled_head), relative.buckets, relative.reach);
  if (predicts) text += " predicts";
  if (qk_norm_plain) text += " plain";
  if (scales != ProductScales()) text += fmt::format(" ({})", TextOf(scales));
  for (const LayerSpec& layer : layers) {
    const auto& [mixer, kv_heads, head_dim, value_dim, kv_from, values_are_keys, window, chunk, layer_sinks,
                 layer_qk_norm, rope, has_mlp, mlp, has_mixture, mixer_norm] = layer;
    text += fmt::format(" {},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", static_cast<int>(mixer), kv_heads, head_dim,
                        value_dim, kv_from, values_are_keys, window, chunk, layer_sinks, layer_qk_norm, rope, has_mlp,
                        mlp, has_mixture, mixer_norm);
  }
  return text;
}

int64_t LargestHead(const ModelSpec& spec) {
  return std::ranges::max_element(spec.layers, {}, &LayerSpec::head_dim)->head_dim;
}

int64_t RotatedDims(const ModelSpec& spec, int64_t rope) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.rope == rope && spec.rotated_dims(layer) > 0) return spec.rotated_dims(layer);
  }
  return 0;
}

}  // namespace quire
