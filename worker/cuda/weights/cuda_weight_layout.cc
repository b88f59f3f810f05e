#include "worker/cuda/weights/cuda_weight_layout.h"

#include <algorithm>

#include "kernels/cuda/products/quantized_gemm.h"
#include "worker/cuda/weights/cuda_weights.h"

namespace quire {

CudaWeightLayout::CudaWeightLayout(const ModelSpec& spec, const RankShard& shard, NumberType dtype,
                                   const std::vector<LayerForms>& forms, std::byte* memory)
    : pieces(memory) {
  const int64_t element = ByteSize(dtype), hidden = spec.hidden_size, inputs = spec.layer_input_size;
  const auto take = [&](int64_t rows, int64_t cols) -> void* { return pieces.Take(rows * cols * element); };
  const auto take_if = [&](bool there, int64_t count) { return there ? take(1, count) : nullptr; };
  const auto matrices = [&](bool there, int64_t count, int64_t rows, int64_t cols,
                            std::optional<NumberType> form) -> DeviceMatrix {
    if (!there) return {};
    return {form ? pieces.Take(count * kernels::QuantizedBytes(*form, rows, cols)) : take(count * rows, cols), form};
  };
  const auto matrix = [&](bool there, int64_t rows, int64_t cols, std::optional<NumberType> form) {
    return matrices(there, 1, rows, cols, form);
  };
  const auto expands = [&](int64_t rows, int64_t cols, std::optional<NumberType> form) {
    // The memory for expanded rows is at most about as large as the GPU's second-level cache (but has room for 8 rows),
    // because a part of a matrix is read right after it was expanded.
    constexpr int64_t kMost = int64_t{32} << 20;
    if (form)
      expanded_bytes = std::max(expanded_bytes, std::min(rows * cols * element, std::max(kMost, 8 * cols * element)));
  };
  const bool whole = spec.qk_norm == QkNorm::kWhole, norms = spec.qk_norm != QkNorm::kNone;
  const Mixture& m = spec.mixture;
  const int64_t experts = shard.experts.size();
  const int64_t expert = CudaWeights::ExpertWidth(shard), shared = CudaWeights::SharedWidth(shard);
  const int64_t ins = spec.gated_mlp ? 2 : 1;  // matrices in the first product of an MLP: gates and ups, or ups alone
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    const LayerForms& form = forms[static_cast<size_t>(i)];
    const int64_t mlp = CudaWeights::MlpWidth(shard, i), qkv = QkvWidth(spec, shard, i);
    const int64_t heads = shard.heads.size() * layer.head_dim;
    const int64_t kv = shard.layer(i).kv_heads.size() * layer.head_dim;
    const bool has_latents = spec.latent.rank > 0;
    const int64_t out = has_latents ? shard.heads.size() * spec.latent.value_dim : heads;
    const bool attends = layer.has_attention();
    const bool dense = layer.mlp && !layer.mixture, shares = layer.mixture && m.shared_intermediate_size > 0;
    const bool mixes = layer.mixer != Mixer::kNone, mlp_norm = spec.norms_before && layer.mlp && !spec.shared_norm;
    layers.push_back({.attention_norm = take_if(mixes && spec.norms_before, hidden),
                      .attention_norm_bias = take_if(mixes && spec.norms_before && spec.norm_bias, hidden),
                      .mlp_norm = take_if(mlp_norm, hidden),
                      .mlp_norm_bias = take_if(mlp_norm && spec.norm_bias, hidden),
                      .attention_after_norm = take_if(mixes && spec.norms_after, hidden),
                      .mlp_after_norm = take_if(layer.mlp && spec.norms_after, hidden),
                      .qkv = attends && !has_latents ? PlaceQkv(spec, shard, i, form, dtype) : std::vector<QkvPart>(),
                      .latents = PlaceLatents(spec, shard, dtype, form, pieces),
                      .qkv_bias = take_if(attends && spec.qkv_bias, qkv),
                      .query_norm = take_if(attends && norms, whole ? heads : layer.head_dim),
                      .key_norm = take_if(norms && layer.has_kv(), whole ? kv : layer.head_dim),
                      .attention_out = matrix(attends, hidden, out, form.attention_out),
                      .attention_out_bias = take_if(attends && spec.out_bias, hidden),
                      .mixer = layer.has_state() ? PlaceMixer(spec, shard, dtype, pieces) : CudaMixerWeights(),
                      .mlp_in = matrix(dense, ins * mlp, hidden, form.mlp_in),
                      .up_bias = take_if(spec.mlp_bias, mlp),
                      .down = matrix(dense, hidden, mlp, form.down),
                      .down_bias = take_if(spec.mlp_bias, hidden),
                      .input_gate = take_if(inputs > 0, inputs * hidden),
                      .input_out = take_if(inputs > 0, hidden * inputs),
                      .input_norm = take_if(inputs > 0, hidden),
                      .router = take_if(layer.mixture, CudaWeights::RouterWidth(spec) * hidden),
                      .experts_in_bias = take_if(layer.mixture && m.expert_biases, experts * 2 * expert),
                      .experts_down_bias = take_if(layer.mixture && m.expert_biases, experts * hidden),
                      .experts_in = matrices(layer.mixture, experts, ins * expert, hidden, form.experts_in),
                      .experts_down = matrices(layer.mixture, experts, hidden, expert, form.experts_down),
                      .shared_in = matrix(shares, ins * shared, hidden, form.shared_in),
                      .shared_down = matrix(shares, hidden, shared, form.shared_down),
                      .norms_apart = layer.mixture ? PlaceNorms(m, hidden * element) : CudaMixtureNorms()});
    for (const QkvPart& part : layers.back().qkv) expands(part.rows, hidden, part.matrix.quantized);
    if (has_latents) {
      const LatentAttention& latent = spec.latent;
      expands(latent.query_rank, hidden, form.query_in);
      expands(latent.rank + latent.rotated_dim, hidden, form.latent_in);
      expands(shard.heads.size() * latent.query_dim(), latent.query_rank > 0 ? latent.query_rank : hidden, form.qkv[0]);
    }
    expands(hidden, out, form.attention_out);
    expands(ins * mlp, hidden, form.mlp_in);
    expands(hidden, mlp, form.down);
    expands(ins * shared, hidden, form.shared_in);
    expands(hidden, shared, form.shared_down);
  }
  embedding_norm = take_if(spec.embedding_norm, hidden);
  embedding_norm_bias = take_if(spec.embedding_norm && spec.norm_bias, hidden);
  final_norm = take(1, hidden);
  final_norm_bias = take_if(spec.norm_bias, hidden);
  const bool learned = spec.position == Position::kLearned;
  positions = learned ? take(Extent(spec, Axis::kPositionRows, 0), hidden) : nullptr;
  value_norm = take_if(spec.value_norm, LargestHead(spec));
  layer_embedding = take_if(inputs > 0, spec.vocab_size * spec.num_layers() * inputs);
  layer_projection = take_if(inputs > 0, spec.num_layers() * inputs * hidden);
  layer_projection_norm = take_if(inputs > 0, inputs);
  embedding = take(spec.vocab_size, hidden);
  if (!spec.tied_embeddings) {
    head = take(shard.vocab.size(), hidden);
  } else if (memory != nullptr) {
    head = static_cast<std::byte*>(embedding) + shard.vocab.begin * hidden * element;
  }
}

std::vector<QkvPart> CudaWeightLayout::PlaceQkv(const ModelSpec& spec, const RankShard& shard, int64_t i,
                                                const LayerForms& form, NumberType dtype) {
  const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
  const int64_t heads = shard.heads.size() * layer.head_dim, hidden = spec.hidden_size;
  const int64_t kv = layer.has_kv() ? shard.layer(i).kv_heads.size() * layer.head_dim : 0;
  std::vector<QkvPart> parts;
  int64_t first = 0;
  for (const Role role : kQkvRoles) {
    const int64_t rows = role == Role::kQuery ? heads : role == Role::kAttentionGate ? GateWidth(spec, shard, i) : kv;
    if (rows == 0) continue;
    if (parts.empty() || parts.back().matrix.quantized != form.Of(role))
      parts.push_back({{nullptr, form.Of(role)}, first, 0, {}});
    parts.back().rows += rows;
    parts.back().roles.push_back(role);
    first += rows;
  }
  for (QkvPart& part : parts) {
    const std::optional<NumberType> type = part.matrix.quantized;
    part.matrix.data =
        pieces.Take(type ? kernels::QuantizedBytes(*type, part.rows, hidden) : part.rows * hidden * ByteSize(dtype));
  }
  return parts;
}

CudaMixtureNorms CudaWeightLayout::PlaceNorms(const Mixture& mixture, int64_t bytes) {
  if (!mixture.normed_apart) return {};
  return {pieces.Take(bytes), pieces.Take(bytes), pieces.Take(bytes), pieces.Take(bytes)};
}

}  // namespace quire
