#pragma once

#include <algorithm>

#include "comm/model/model_spec.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/pieces.h"
#include "worker/cuda/weights/cuda_weights.h"

namespace quire {

/// The device buffers of a forward pass of at most T rows. A token is sampled for at most R of these rows. Numbers have
/// the model's type unless stated otherwise.
struct Activations {
  Activations(const ModelSpec& spec, const RankShard& shard, NumberType dtype, int64_t max_tokens, int64_t max_draws,
              int64_t width_of_logits, Pieces& pieces)
      : hidden(spec.hidden_size), logits_width(width_of_logits) {
    for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
      heads_width = std::max(heads_width, shard.heads.size() * spec.layers[static_cast<size_t>(layer)].head_dim);
      qkv_width = std::max(qkv_width, QkvStride(spec, shard, layer));
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
    layer_inputs = rows(max_tokens, spec.num_layers() * spec.layer_input_size);
    projected_inputs = rows(max_tokens, spec.num_layers() * spec.layer_input_size);
    gated_input = rows(max_tokens, spec.layer_input_size);
    drawing = rows(max_draws, hidden);
    logits = pieces.Take<float>(max_draws * logits_width);
  }

  /// Returns the distance, in numbers, between the starts of two rows of qkv: the length of a row, rounded up so that
  /// rows are multiples of 16 bytes.
  static int64_t QkvStride(const ModelSpec& spec, const RankShard& shard, int64_t layer) {
    return (QkvWidth(spec, shard, layer) + 7) / 8 * 8;
  }

  int64_t hidden;
  // The widths of the widest layer; narrower layers use shorter rows.
  int64_t heads_width = 0, qkv_width = 0, mlp_width = 0;
  int64_t logits_width;
  void* residual;      // [T, hidden]
  void* normed;        // [T, hidden]
  void* qkv;           // [T, qkv_width], rows QkvStride() apart
  void* attended;      // [T, heads_width]
  void* gate_up;       // [T, 2 * mlp_width]; null: the MLP has no gate
  void* activated;     // [T, mlp_width]
  void* delta;         // [T, hidden]: the output of attention or MLP, which is added to the residual
  void* second_delta;  // [T, hidden]: the MLP's part where attention and MLP run in parallel; else null
  // In models without layer inputs, layer_inputs, projected_inputs and gated_input have size 0.
  void *layer_inputs, *projected_inputs;  // [T, layers, layer_input_size]
  void* gated_input;                      // [T, layer_input_size]
  void* drawing;                          // [R, hidden]
  float* squares;                         // [T, 2] sums of squares of queries and keys; null: no norm needs them
  float* logits;                          // [R, logits_width] fp32
};

}  // namespace quire
