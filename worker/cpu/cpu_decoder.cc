#include "worker/cpu/cpu_decoder.h"

#include <algorithm>

#include "comm/base/error.h"
#include "kernels/activation.h"
#include "kernels/add_rows.h"
#include "kernels/cap_logits.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/head_norm.h"
#include "kernels/layer_norm.h"
#include "kernels/paged_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sum_squares.h"
#include "kernels/wide_norm.h"
#include "worker/model/rope_table.h"

namespace quire {

namespace {

std::vector<float> LocalSlopes(const ModelSpec& spec, const RankShard& shard) {
  const std::vector<float> slopes = AlibiSlopes(spec);
  if (slopes.empty()) return {};
  return {slopes.begin() + shard.heads.begin, slopes.begin() + shard.heads.end};
}

kernels::Activations ActivationsOf(ActivationType type) {
  switch (type) {
    case ActivationType::kInt8:
      return kernels::Activations::kInt8;
    case ActivationType::kInt16:
      return kernels::Activations::kInt16;
  }
  Fail("activations of type {} are unknown", static_cast<int>(type));
}

}  // namespace

CpuDecoder::CpuDecoder(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream,
                       Collective& collective, const EngineSizes& sizes)
    : spec_(files.spec()),
      shard_(shard),
      stream_(stream),
      collective_(collective),
      weights_(files, shard, sizes.compute.quantization),
      activations_(ActivationsOf(sizes.compute.activations)),
      qkv_width_((shard.heads.size() + 2 * shard.kv_heads.size()) * spec_.head_dim),
      alibi_slopes_(LocalSlopes(spec_, shard)),
      experts_(spec_, shard, sizes.max_step_tokens) {
  for (const Rope& rope : spec_.ropes) {
    ropes_.push_back(RopeTable(spec_, rope, sizes.max_model_len));
    query_ropes_.emplace_back();
    if (rope.query_growth != 0) query_ropes_.back() = RopeTable(spec_, rope, sizes.max_model_len, true);
  }
  const auto rows = [&](int64_t width) { return static_cast<size_t>(sizes.max_step_tokens * width); };
  residual_.resize(rows(spec_.hidden_size));
  normed_.resize(rows(spec_.hidden_size));
  qkv_.resize(rows(qkv_width_));
  attended_.resize(rows(shard.heads.size() * spec_.head_dim));
  if (spec_.gated_mlp) gate_up_.resize(rows(2 * shard.mlp.size()));
  activated_.resize(rows(shard.mlp.size()));
  delta_.resize(rows(spec_.hidden_size));
  if (spec_.qk_norm == QkNorm::kWhole) squares_.resize(2 * rows(2));
}

std::span<const float> CpuDecoder::Forward(const StepInputs& inputs, const KvCache& cache) {
  inputs_ = &inputs;
  cache_ = &cache;
  tokens_ = inputs.num_tokens();
  Decode(spec_, *this);
  return logits_;
}

void CpuDecoder::Embed() {
  kernels::Embedding(stream_, {.dtype = NumberType::kF32,
                               .table = weights_.embedding,
                               .token_ids = inputs_->token_ids.data(),
                               .out = residual_.data(),
                               .num_tokens = tokens_,
                               .scale = static_cast<float>(spec_.embedding_scale)});
  if (spec_.position == Position::kLearned) {
    kernels::Embedding(stream_, {.dtype = NumberType::kF32,
                                 .table = weights_.positions,
                                 .token_ids = inputs_->positions.data(),
                                 .out = residual_.data(),
                                 .num_tokens = tokens_,
                                 .adds = true});
  }
  if (spec_.embedding_norm) Norm(weights_.embedding_norm, residual_.data());
}

void CpuDecoder::NormQkv(int64_t layer) {
  Matmul(Normed(weights(layer).attention_norm), weights(layer).qkv, qkv_.data(), qkv_width_, tokens_, activations_);
}

void CpuDecoder::PositionAndStore(int64_t layer) {
  const LayerWeights& w = weights(layer);
  const int64_t dim = spec_.head_dim, heads = shard_.heads.size(), kv_heads = shard_.kv_heads.size();
  float* q = qkv_.data();
  float* k = q + heads * dim;
  float* v = k + kv_heads * dim;
  if (!w.qkv_bias.empty()) AddBias(w.qkv_bias, q, tokens_, qkv_width_);
  if (spec_.qk_norm != QkNorm::kNone) NormQueriesAndKeys(w);
  if (const int64_t rope = LayerOf(layer).rope; rope >= 0 && spec_.rotated_dims() > 0) {
    const float* table = ropes_[static_cast<size_t>(rope)].data();
    const std::vector<float>& of_queries = query_ropes_[static_cast<size_t>(rope)];
    const auto rotate = [&](float* from, int64_t count, const float* by) {
      kernels::Rope(stream_,
                    {from, by, inputs_->positions.data(), tokens_, count, dim, qkv_width_, spec_.rotated_dims()});
    };
    if (of_queries.empty()) {
      rotate(q, heads + kv_heads, table);
    } else {
      rotate(q, heads, of_queries.data());
      rotate(k, kv_heads, table);
    }
  }
  kernels::KvWrite(stream_, {k, v, qkv_width_, inputs_->slots.data(), tokens_, cache_->Layer(layer)});
}

void CpuDecoder::NormQueriesAndKeys(const LayerWeights& w) {
  const int64_t dim = spec_.head_dim, heads = shard_.heads.size(), kv_heads = shard_.kv_heads.size();
  const auto epsilon = static_cast<float>(spec_.norm_epsilon);
  float* q = qkv_.data();
  float* k = q + heads * dim;
  if (spec_.qk_norm == QkNorm::kHeads) {
    kernels::HeadNorm(stream_, {q, w.query_norm.data(), tokens_, heads, dim, qkv_width_, epsilon});
    kernels::HeadNorm(stream_, {k, w.key_norm.data(), tokens_, kv_heads, dim, qkv_width_, epsilon});
    return;
  }
  // Ranks sum their squares. A KV head that several hold is summed by the one that has its first query head.
  const int64_t counted = CountedKvHeads(spec_, shard_) * dim, all = tokens_ * 2;
  float* part = squares_.data();
  kernels::SumSquares(stream_, {NumberType::kF32, q, qkv_width_, tokens_, heads * dim,
                                (heads + kv_heads) * dim - counted, counted, part});
  float* squares = part;
  if (collective_.size() > 1) {
    squares += all;
    std::fill_n(squares, all, 0.0f);
    collective_.AllReduceAdd({part, static_cast<size_t>(all)}, {squares, static_cast<size_t>(all)});
  }
  kernels::WideNorm(stream_, {q, w.query_norm.data(), squares, tokens_, heads * dim, qkv_width_, 2,
                              Extent(spec_, Axis::kQueries), epsilon});
  kernels::WideNorm(stream_, {k, w.key_norm.data(), squares + 1, tokens_, kv_heads * dim, qkv_width_, 2,
                              Extent(spec_, Axis::kKeyValues), epsilon});
}

void CpuDecoder::Attend(int64_t layer) {
  const int64_t dim = spec_.head_dim, heads = shard_.heads.size();
  kernels::PagedAttention(
      stream_,
      {qkv_.data(), qkv_width_, attended_.data(), heads * dim, cache_->Layer(layer), inputs_->block_tables.data(),
       inputs_->table_stride, inputs_->query_start.data(), inputs_->context_len.data(), shard_.head_start.data(),
       inputs_->num_sequences(), heads, AttentionScale(spec_), LayerOf(layer).window,
       static_cast<float>(spec_.score_cap), DataOf(alibi_slopes_), DataOf(weights(layer).sinks)});
}

void CpuDecoder::AddAttention(int64_t layer) {
  MultiplyOut(attended_.data(), weights(layer).attention_out, weights(layer).attention_out_bias, delta_.data());
  AddToResidual(weights(layer).attention_after_norm);
}

void CpuDecoder::NormMlpIn(int64_t layer) {
  const int64_t columns = shard_.mlp.size();
  const LayerWeights& w = weights(layer);
  const float* x = spec_.shared_norm ? normed_.data() : Normed(w.mlp_norm);
  if (spec_.gated_mlp) {
    Matmul(x, w.mlp_in, gate_up_.data(), 2 * columns, tokens_, activations_);
    kernels::GateMul(stream_, {NumberType::kF32, gate_up_.data(), activated_.data(), tokens_, columns, false,
                               AsKernel(spec_.activation)});
  } else if (columns > 0) {
    Matmul(x, w.mlp_in, activated_.data(), columns, tokens_, activations_);
    kernels::Activate(stream_, {NumberType::kF32, activated_.data(), DataOf(w.up_bias), tokens_, columns,
                                AsKernel(spec_.activation)});
  }
}

void CpuDecoder::AddMlp(int64_t layer) {
  MultiplyOut(activated_.data(), weights(layer).down, weights(layer).down_bias, delta_.data());
  AddToResidual(weights(layer).mlp_after_norm);
}

void CpuDecoder::AddAttentionAndMlp(int64_t layer) {
  const LayerWeights& w = weights(layer);
  MultiplyOut(attended_.data(), w.attention_out, w.attention_out_bias, delta_.data());
  MultiplyOut(activated_.data(), w.down, w.down_bias, normed_.data());
  const int64_t hidden = spec_.hidden_size;
  kernels::AddRows(stream_, {NumberType::kF32, delta_.data(), normed_.data(), tokens_, hidden, hidden, hidden});
  AddToResidual({});
}

void CpuDecoder::Logits() {
  Normed(weights_.final_norm);
  // Only rows that draw need logits. The others stay as they are, for those who ask for theirs.
  const int64_t hidden = spec_.hidden_size;
  const auto draws = static_cast<int64_t>(inputs_->draw_rows.size());
  float* drawing = delta_.data();
  for (int64_t i = 0; i < draws; ++i) {
    const float* row = normed_.data() + inputs_->draw_rows[static_cast<size_t>(i)] * hidden;
    std::copy(row, row + hidden, drawing + i * hidden);
  }
  MultiplyHead(drawing, draws);
}

std::span<const float> CpuDecoder::LogitsOfRows(int64_t row, int64_t count) {
  MultiplyHead(normed_.data() + row * spec_.hidden_size, count);
  return logits_;
}

std::span<const float> CpuDecoder::NormedRows(int64_t row, int64_t count) const {
  const auto hidden = static_cast<size_t>(spec_.hidden_size);
  return std::span(normed_).subspan(static_cast<size_t>(row) * hidden, static_cast<size_t>(count) * hidden);
}

void CpuDecoder::MultiplyHead(const float* rows, int64_t count) {
  const int64_t vocab = shard_.vocab.size();
  logits_.resize(static_cast<size_t>(count * vocab));
  // Nothing comes after the output head that would even out its errors.
  Matmul(rows, weights_.head, logits_.data(), vocab, count, kernels::Activations::kInt16);
  if (!weights_.head_bias.empty()) AddBias(weights_.head_bias, logits_.data(), count, vocab);
  if (spec_.logit_scale == 1 && spec_.logit_cap == 0) return;
  kernels::CapLogits(stream_, {logits_.data(), count, vocab, vocab, static_cast<float>(spec_.logit_scale),
                               static_cast<float>(spec_.logit_cap)});
}

const float* CpuDecoder::Normed(const NormWeights& weights) {
  if (weights.weight.empty()) return residual_.data();
  Norm(weights, normed_.data());
  return normed_.data();
}

void CpuDecoder::Norm(const NormWeights& weights, float* out) {
  const auto epsilon = static_cast<float>(spec_.norm_epsilon);
  const float* weight = weights.weight.data();
  if (spec_.norm == NormKind::kRms) {
    kernels::RmsNorm(stream_,
                     {NumberType::kF32, residual_.data(), nullptr, weight, out, tokens_, spec_.hidden_size, epsilon});
  } else {
    kernels::LayerNorm(stream_, {NumberType::kF32, residual_.data(), nullptr, weight, DataOf(weights.bias), out,
                                 tokens_, spec_.hidden_size, epsilon});
  }
}

void CpuDecoder::Matmul(const float* x, const Matrices& weights, float* y, int64_t y_stride, int64_t m,
                        kernels::Activations activations) {
  const auto count = static_cast<int64_t>(weights.size());
  kernels::Matmul(stream_, {x, weights[0].cols, weights.data(), count, y, y_stride, m, activations});
}

void CpuDecoder::MultiplyOut(const float* x, const Matrices& weight, const std::vector<float>& bias, float* out) {
  Matmul(x, weight, out, spec_.hidden_size, tokens_, activations_);
  if (bias.empty() || collective_.rank() != 0) return;
  AddBias(bias, out, tokens_, spec_.hidden_size);
}

void CpuDecoder::AddBias(const std::vector<float>& bias, float* rows, int64_t count, int64_t stride) {
  kernels::AddRows(stream_, {NumberType::kF32, rows, bias.data(), count, static_cast<int64_t>(bias.size()), stride, 0});
}

void CpuDecoder::AddToResidual(const std::vector<float>& after_norm) {
  if (after_norm.empty()) {
    AddDelta();
  } else {
    AddNormOfDelta(after_norm);
  }
}

void CpuDecoder::AddDelta() {
  const auto scale = static_cast<float>(spec_.residual_scale);
  const auto add = [&](int64_t begin, int64_t end, int) {
    const auto count = static_cast<size_t>(end - begin);
    if (scale != 1) {
      for (int64_t i = begin; i < end; ++i) delta_[static_cast<size_t>(i)] *= scale;
    }
    collective_.AllReduceAdd({delta_.data() + begin, count}, {residual_.data() + begin, count});
  };
  const int64_t count = tokens_ * spec_.hidden_size;
  if (collective_.size() > 1) return add(0, count, 0);
  stream_.pool().ForRange(count, 64, add);  // alone there is nobody to meet
}

void CpuDecoder::AddNormOfDelta(const std::vector<float>& weight) {
  const int64_t count = tokens_ * spec_.hidden_size;
  float* sum = delta_.data();
  if (collective_.size() > 1) {
    std::fill_n(normed_.data(), count, 0.0f);
    collective_.AllReduceAdd({delta_.data(), static_cast<size_t>(count)}, {normed_.data(), static_cast<size_t>(count)});
    sum = normed_.data();
  }
  kernels::RmsNorm(stream_, {NumberType::kF32, sum, nullptr, weight.data(), residual_.data(), tokens_,
                             spec_.hidden_size, static_cast<float>(spec_.norm_epsilon), true});
}

}  // namespace quire
