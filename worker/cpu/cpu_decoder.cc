#include "worker/cpu/cpu_decoder.h"

#include <algorithm>
#include <cmath>

#include "kernels/add_bias.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"
#include "kernels/head_norm.h"
#include "kernels/paged_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/silu_mul.h"
#include "worker/model/rope_table.h"

namespace quire {

CpuDecoder::CpuDecoder(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream,
                       Collective& collective, const EngineSizes& sizes)
    : spec_(files.spec()),
      shard_(shard),
      stream_(stream),
      collective_(collective),
      weights_(files, shard, sizes.quantization),
      activations_(sizes.activations == "int8" ? kernels::Activations::kInt8 : kernels::Activations::kInt16),
      qkv_width_((shard.heads.size() + 2 * shard.kv_heads.size()) * spec_.head_dim),
      rope_(RopeTable(spec_, sizes.max_model_len)) {
  const auto rows = [&](int64_t width) { return static_cast<size_t>(sizes.max_step_tokens * width); };
  residual_.resize(rows(spec_.hidden_size));
  normed_.resize(rows(spec_.hidden_size));
  qkv_.resize(rows(qkv_width_));
  attended_.resize(rows(shard.heads.size() * spec_.head_dim));
  gate_up_.resize(rows(2 * shard.mlp.size()));
  activated_.resize(rows(shard.mlp.size()));
  delta_.resize(rows(spec_.hidden_size));
}

std::span<const float> CpuDecoder::Forward(const StepInputs& inputs, const KvCache& cache) {
  inputs_ = &inputs;
  cache_ = &cache;
  tokens_ = inputs.num_tokens();
  Decode(spec_, *this);
  return logits_;
}

void CpuDecoder::Embed() {
  kernels::Embedding(stream_, {weights_.embedding, inputs_->token_ids.data(), residual_.data(), tokens_});
}

void CpuDecoder::NormQkv(int64_t layer) {
  Norm(weights(layer).attention_norm);
  Matmul(normed_.data(), weights(layer).qkv, qkv_.data(), qkv_width_, tokens_, activations_);
}

void CpuDecoder::PositionAndStore(int64_t layer) {
  const LayerWeights& w = weights(layer);
  const int64_t dim = spec_.head_dim, heads = shard_.heads.size(), kv_heads = shard_.kv_heads.size();
  const auto epsilon = static_cast<float>(spec_.rms_norm_epsilon);
  float* q = qkv_.data();
  float* k = q + heads * dim;
  float* v = k + kv_heads * dim;
  if (spec_.qkv_bias) kernels::AddBias(stream_, {q, w.qkv_bias.data(), tokens_, qkv_width_, qkv_width_});
  if (spec_.qk_norm) {
    kernels::HeadNorm(stream_, {q, w.query_norm.data(), tokens_, heads, dim, qkv_width_, epsilon});
    kernels::HeadNorm(stream_, {k, w.key_norm.data(), tokens_, kv_heads, dim, qkv_width_, epsilon});
  }
  kernels::Rope(stream_, {q, rope_.data(), inputs_->positions.data(), tokens_, heads + kv_heads, dim, qkv_width_});
  kernels::KvWrite(stream_, {k, v, qkv_width_, inputs_->slots.data(), tokens_, cache_->Layer(layer)});
}

void CpuDecoder::Attend(int64_t layer) {
  const int64_t dim = spec_.head_dim, heads = shard_.heads.size();
  kernels::PagedAttention(stream_,
                          {qkv_.data(), qkv_width_, attended_.data(), heads * dim, cache_->Layer(layer),
                           inputs_->block_tables.data(), inputs_->table_stride, inputs_->query_start.data(),
                           inputs_->context_len.data(), shard_.head_start.data(), inputs_->num_sequences(), heads,
                           1.0f / std::sqrt(static_cast<float>(dim)), spec_.layers[static_cast<size_t>(layer)].window});
}

void CpuDecoder::AddAttention(int64_t layer) { AddToResidual(attended_.data(), weights(layer).attention_out); }

void CpuDecoder::NormMlpIn(int64_t layer) {
  const int64_t columns = shard_.mlp.size();
  Norm(weights(layer).mlp_norm);
  Matmul(normed_.data(), weights(layer).gate_up, gate_up_.data(), 2 * columns, tokens_, activations_);
  kernels::SiluMul(stream_, {gate_up_.data(), activated_.data(), tokens_, columns});
}

void CpuDecoder::AddMlp(int64_t layer) { AddToResidual(activated_.data(), weights(layer).down); }

void CpuDecoder::Logits() {
  Norm(weights_.final_norm);
  // Only rows that draw need logits. Gathering them upwards in place is safe: rows move to lower or equal places.
  const int64_t hidden = spec_.hidden_size;
  const auto draws = static_cast<int64_t>(inputs_->draw_rows.size());
  for (int64_t i = 0; i < draws; ++i) {
    const float* row = normed_.data() + inputs_->draw_rows[static_cast<size_t>(i)] * hidden;
    std::copy(row, row + hidden, normed_.data() + i * hidden);
  }
  logits_.resize(static_cast<size_t>(draws * shard_.vocab.size()));
  // Nothing comes after the output head that would even out its errors.
  Matmul(normed_.data(), weights_.head, logits_.data(), shard_.vocab.size(), draws, kernels::Activations::kInt16);
}

void CpuDecoder::Norm(const std::vector<float>& weight) {
  kernels::RmsNorm(stream_, {residual_.data(), weight.data(), normed_.data(), tokens_, spec_.hidden_size,
                             static_cast<float>(spec_.rms_norm_epsilon)});
}

void CpuDecoder::Matmul(const float* x, const Matrices& weights, float* y, int64_t y_stride, int64_t m,
                        kernels::Activations activations) {
  const auto count = static_cast<int64_t>(weights.size());
  kernels::Matmul(stream_, {x, weights[0].cols, weights.data(), count, y, y_stride, m, activations});
}

void CpuDecoder::AddToResidual(const float* x, const Matrices& weight) {
  Matmul(x, weight, delta_.data(), spec_.hidden_size, tokens_, activations_);
  const auto add = [&](int64_t begin, int64_t end, int) {
    const auto count = static_cast<size_t>(end - begin);
    collective_.AllReduceAdd({delta_.data() + begin, count}, {residual_.data() + begin, count});
  };
  const int64_t count = tokens_ * spec_.hidden_size;
  if (collective_.size() > 1) return add(0, count, 0);
  stream_.pool().ForRange(count, 64, add);  // alone there is nobody to meet
}

}  // namespace quire
