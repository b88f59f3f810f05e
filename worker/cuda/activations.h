#pragma once

#include <algorithm>

#include "comm/model/model_spec.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/cuda_weights.h"
#include "worker/cuda/pieces.h"

namespace quire {

/// What a forward pass keeps between kernels, T rows of the model's type unless said otherwise; R of them draw.
struct Activations {
  Activations(const ModelSpec& spec, const RankShard& shard, NumberType dtype, int64_t max_tokens, int64_t max_draws,
              int64_t width_of_logits, Pieces& pieces)
      : hidden(spec.hidden_size), logits_width(width_of_logits) {
    for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
      heads_width = std::max(heads_width, shard.heads.size() * spec.layers[static_cast<size_t>(layer)].head_dim);
      qkv_width = std::max(qkv_width, QkvWidth(spec, shard, layer));
      mlp_width = std::max(mlp_width, CudaWeights::MlpWidth(shard, layer));
    }
    const auto rows = [&](int64_t count, int64_t width) -> void* {
      return pieces.Take(count * width * ByteSize(dtype));
    };
    residual = rows(max_tokens, hidden);
    normed = rows(max_tokens, hidden);
    qkv = rows(max_tokens, qkv_width);
    attended = rows(max_tokens, heads_width);
    gate_up = spec.gated_mlp ? rows(max_tokens, 2 * mlp_width) : nullptr;
    activated = rows(max_tokens, mlp_width);
    delta = rows(max_tokens, hidden);
    second_delta = spec.parallel_block ? rows(max_tokens, hidden) : nullptr;
    squares = spec.qk_norm == QkNorm::kWhole ? pieces.Take<float>(max_tokens * 2) : nullptr;
    drawing = rows(max_draws, hidden);
    logits = pieces.Take<float>(max_draws * logits_width);
  }

  int64_t hidden;
  int64_t heads_width = 0, qkv_width = 0, mlp_width = 0;  // of the widest layer; rows are as wide as theirs needs
  int64_t logits_width;
  void* residual;      // [T, hidden]
  void* normed;        // [T, hidden]
  void* qkv;           // [T, qkv_width]
  void* attended;      // [T, heads_width]
  void* gate_up;       // [T, 2 * mlp_width]; null where the MLP has no gate
  void* activated;     // [T, mlp_width]
  void* delta;         // [T, hidden]: what attention or MLP adds to the residual
  void* second_delta;  // [T, hidden]: what the MLP adds beside attention; null where they follow each other
  void* drawing;       // [R, hidden]
  float* squares;      // [T, 2] of queries and keys; null where no norm asks for them
  float* logits;       // [R, logits_width] fp32
};

}  // namespace quire
