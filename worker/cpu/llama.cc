#include "worker/cpu/llama.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/silu_mul.h"
#include "worker/rope_table.h"

namespace quire {

Llama::Llama(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream, Collective& collective,
             const EngineSizes& sizes)
    : config_(files.config()),
      shard_(shard),
      stream_(stream),
      collective_(collective),
      weights_(files, shard, sizes.quantization),
      activations_(sizes.activations == "int8" ? kernels::Activations::kInt8 : kernels::Activations::kInt16),
      qkv_width_((shard.heads.size() + 2 * shard.kv_heads.size()) * config_.head_dim),
      rope_(RopeTable(config_, sizes.max_model_len)) {
  const auto rows = [&](int64_t width) { return static_cast<size_t>(sizes.max_step_tokens * width); };
  residual_.resize(rows(config_.hidden_size));
  normed_.resize(rows(config_.hidden_size));
  qkv_.resize(rows(qkv_width_));
  attended_.resize(rows(shard.heads.size() * config_.head_dim));
  gate_up_.resize(rows(2 * shard.mlp.size()));
  activated_.resize(rows(shard.mlp.size()));
  delta_.resize(rows(config_.hidden_size));
}

void Llama::Matmul(const float* x, const Matrices& weights, float* y, int64_t y_stride, int64_t m,
                   kernels::Activations activations) {
  const auto count = static_cast<int64_t>(weights.size());
  kernels::Matmul(stream_, {x, weights[0].cols, weights.data(), count, y, y_stride, m, activations});
}

void Llama::AddToResidual(int64_t num_tokens) {
  const auto add = [&](int64_t begin, int64_t end, int) {
    const auto count = static_cast<size_t>(end - begin);
    collective_.AllReduceAdd({delta_.data() + begin, count}, {residual_.data() + begin, count});
  };
  const int64_t count = num_tokens * config_.hidden_size;
  if (collective_.size() > 1) return add(0, count, 0);
  stream_.pool().ForRange(count, 64, add);  // alone there is nobody to meet
}

std::span<const float> Llama::Forward(const StepInputs& inputs, const KvCache& cache) {
  const int64_t tokens = inputs.num_tokens(), hidden = config_.hidden_size;
  const auto norm = [&](const std::vector<float>& weight) {
    kernels::RmsNorm(stream_, {residual_.data(), weight.data(), normed_.data(), tokens, hidden,
                               static_cast<float>(config_.rms_norm_epsilon)});
  };
  kernels::Embedding(stream_, {weights_.embedding, inputs.token_ids.data(), residual_.data(), tokens});
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const LayerWeights& layer = weights_.layers[i];
    norm(layer.input_norm);
    Attention(layer, inputs, cache.Layer(static_cast<int64_t>(i)));
    AddToResidual(tokens);
    norm(layer.post_attention_norm);
    Mlp(layer, tokens);
    AddToResidual(tokens);
  }
  norm(weights_.final_norm);

  // Only rows that draw need logits. Gathering them upwards in place is safe: rows move to lower or equal places.
  const auto draws = static_cast<int64_t>(inputs.draw_rows.size());
  for (int64_t i = 0; i < draws; ++i) {
    const float* row = normed_.data() + inputs.draw_rows[static_cast<size_t>(i)] * hidden;
    std::copy(row, row + hidden, normed_.data() + i * hidden);
  }
  logits_.resize(static_cast<size_t>(draws * shard_.vocab.size()));
  // Nothing comes after the output head that would even out its errors.
  Matmul(normed_.data(), weights_.lm_head, logits_.data(), shard_.vocab.size(), draws, kernels::Activations::kInt16);
  return logits_;
}

void Llama::Attention(const LayerWeights& layer, const StepInputs& inputs, const kernels::KvCacheView& cache) {
  const int64_t tokens = inputs.num_tokens(), dim = config_.head_dim;
  const int64_t heads = shard_.heads.size(), kv_heads = shard_.kv_heads.size();
  float* q = qkv_.data();
  float* k = q + heads * dim;
  float* v = k + kv_heads * dim;
  Matmul(normed_.data(), layer.qkv, q, qkv_width_, tokens, activations_);
  kernels::Rope(stream_, {q, rope_.data(), inputs.positions.data(), tokens, heads + kv_heads, dim, qkv_width_});
  kernels::KvWrite(stream_, {k, v, qkv_width_, inputs.slots.data(), tokens, cache});
  kernels::PagedAttention(
      stream_, {q, qkv_width_, attended_.data(), heads * dim, cache, inputs.block_tables.data(), inputs.table_stride,
                inputs.query_start.data(), inputs.context_len.data(), shard_.head_start.data(), inputs.num_sequences(),
                heads, 1.0f / std::sqrt(static_cast<float>(dim)), config_.sliding_window});
  Matmul(attended_.data(), layer.o, delta_.data(), config_.hidden_size, tokens, activations_);
}

void Llama::Mlp(const LayerWeights& layer, int64_t num_tokens) {
  const int64_t columns = shard_.mlp.size();
  Matmul(normed_.data(), layer.gate_up, gate_up_.data(), 2 * columns, num_tokens, activations_);
  kernels::SiluMul(stream_, {gate_up_.data(), activated_.data(), num_tokens, columns});
  Matmul(activated_.data(), layer.down, delta_.data(), config_.hidden_size, num_tokens, activations_);
}

}  // namespace quire
