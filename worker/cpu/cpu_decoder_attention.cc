// CpuDecoder's operations that pass information between tokens: attention and the mixers with a recurrent state.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/thread_pool.h"
#include "kernels/head_norm.h"
#include "kernels/paged_attention.h"
#include "kernels/rope.h"
#include "kernels/sigmoid_gate.h"
#include "kernels/sum_squares.h"
#include "kernels/wide_norm.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

void CpuDecoder::PositionAndStore(int64_t layer) {
  const LayerWeights& w = weights(layer);
  const LayerSpec& l = LayerOf(layer);
  const int64_t dim = l.head_dim, heads = shard_.heads.size(), width = QkvWidth(spec_, shard_, layer);
  const int64_t kv_heads = l.has_kv() ? shard_.layer(layer).kv_heads.size() : 0;
  float* q = buffers_.qkv.data();
  float* k = q + heads * dim;
  float* v = spec_.latent.rank > 0 ? k : k + kv_heads * dim;
  if (!w.qkv_bias.empty()) AddBias(w.qkv_bias, q, tokens_, width);
  if (l.value_size() < dim) SpreadValues(layer);
  const bool norms = spec_.qk_norm != QkNorm::kNone && l.qk_norm;
  if (norms && !spec_.qk_norm_rotated) NormQueriesAndKeys(layer);
  if (const int64_t rotated = spec_.rotated_dims(l); rotated > 0) {
    const float* table = ropes_[static_cast<size_t>(l.rope)].data();
    const std::vector<float>& of_queries = query_ropes_[static_cast<size_t>(l.rope)];
    const auto rotate = [&](float* from, int64_t count, const float* by) {
      kernels::Rope(stream_, {from, by, inputs_->positions.data(), tokens_, count, dim, width, rotated});
    };
    if (of_queries.empty()) {
      rotate(q, heads + kv_heads, table);
    } else {
      rotate(q, heads, of_queries.data());
      rotate(k, kv_heads, table);
    }
  }
  if (norms && spec_.qk_norm_rotated) NormQueriesAndKeys(layer);
  if (l.has_kv()) kernels::KvWrite(stream_, {k, v, width, inputs_->slots.data(), tokens_, cache_->Layer(layer)});
}

void CpuDecoder::SpreadValues(int64_t layer) {
  const LayerSpec& l = LayerOf(layer);
  const int64_t dim = l.head_dim, size = l.value_size(), kv_heads = shard_.layer(layer).kv_heads.size();
  const int64_t width = QkvWidth(spec_, shard_, layer), begin = (shard_.heads.size() + kv_heads) * dim;
  stream_.pool().ForRange(tokens_, 4, [&](int64_t first, int64_t end, int) {
    for (int64_t t = first; t < end; ++t) {
      float* const values = buffers_.qkv.data() + t * width + begin;
      for (int64_t head = kv_heads - 1; head >= 0; --head) {
        std::memmove(values + head * dim, values + head * size, static_cast<size_t>(size) * sizeof(float));
        std::fill_n(values + head * dim + size, dim - size, 0.0f);
      }
    }
  });
}

void CpuDecoder::NormQueriesAndKeys(int64_t layer) {
  const LayerWeights& w = weights(layer);
  const LayerSpec& l = LayerOf(layer);
  const int64_t dim = l.head_dim, heads = shard_.heads.size(), width = QkvWidth(spec_, shard_, layer);
  const int64_t kv_heads = l.has_kv() ? shard_.layer(layer).kv_heads.size() : 0;
  const auto epsilon = static_cast<float>(spec_.norm_epsilon);
  float* q = buffers_.qkv.data();
  float* k = q + heads * dim;
  if (spec_.qk_norm == QkNorm::kHeads) {
    const auto weights_of = [&](const std::vector<float>& norm) {
      return spec_.qk_norm_plain ? ones_.data() : norm.data();
    };
    kernels::HeadNorm(stream_, {q, weights_of(w.query_norm), tokens_, heads, dim, width, epsilon});
    if (!l.has_kv()) return;
    kernels::HeadNorm(stream_, {k, weights_of(w.key_norm), tokens_, kv_heads, dim, width, epsilon});
    float* v = k + kv_heads * dim;
    if (spec_.value_norm) kernels::HeadNorm(stream_, {v, ones_.data(), tokens_, kv_heads, dim, width, epsilon});
    return;
  }
  // The ranks add up their sums of squares. A KV head that several ranks have is counted by the rank with the head's
  // first query head.
  const int64_t counted = CountedKvHeads(spec_, shard_, layer) * dim, all = tokens_ * 2;
  float* part = buffers_.squares.data();
  kernels::SumSquares(
      stream_, {NumberType::kF32, q, width, tokens_, heads * dim, (heads + kv_heads) * dim - counted, counted, part});
  float* squares = part;
  if (collective_.size() > 1) {
    squares += all;
    std::fill_n(squares, all, 0.0f);
    collective_.AllReduceAdd({part, static_cast<size_t>(all)}, {squares, static_cast<size_t>(all)});
  }
  kernels::WideNorm(stream_, {NumberType::kF32, q, w.query_norm.data(), squares, tokens_, heads * dim, width, 2,
                              Extent(spec_, Axis::kQueries, layer), epsilon});
  kernels::WideNorm(stream_, {NumberType::kF32, k, w.key_norm.data(), squares + 1, tokens_, kv_heads * dim, width, 2,
                              Extent(spec_, Axis::kKeyValues, layer), epsilon});
}

void CpuDecoder::Attend(int64_t layer) {
  const LayerSpec& l = LayerOf(layer);
  kernels::PagedAttentionParams params = {buffers_.qkv.data(),
                                          QkvWidth(spec_, shard_, layer),
                                          buffers_.attended.data(),
                                          HeadsWidth(layer),
                                          cache_->Layer(layer),
                                          inputs_->block_tables.data(),
                                          inputs_->table_stride,
                                          inputs_->query_start.data(),
                                          inputs_->context_len.data(),
                                          shard_.layer(layer).head_start.data(),
                                          inputs_->num_sequences(),
                                          shard_.heads.size(),
                                          AttentionScale(spec_, l),
                                          l.window,
                                          static_cast<float>(spec_.score_cap),
                                          DataOf(alibi_slopes_),
                                          activations_,
                                          DataOf(weights(layer).sinks),
                                          spec_.bidirectional};
  params.relative_bias = DataOf(relative_bias_);
  params.relative_reach = spec_.relative_bias.reach;
  if (spec_.bidirectional) params.first_position = inputs_->first_position.data();
  if (!inputs_->context_begin.empty()) params.context_begin = inputs_->context_begin.data();
  params.out_dim = l.value_dim;
  if (l.chunk > 0) {
    params.block_tables = chunks_.block_tables.data();
    params.query_start = chunks_.query_start.data();
    params.context_len = chunks_.context_len.data();
    params.context_begin = chunks_.context_begin.data();
    params.num_sequences = chunks_.num_parts();
  }
  kernels::PagedAttention(stream_, params);
  if (spec_.latent.rank > 0) latents_.MakeValues(weights(layer).latents, buffers_.attended.data(), tokens_);
  if (!spec_.attention_gate) return;
  const int64_t width = QkvWidth(spec_, shard_, layer), gates = GateWidth(spec_, shard_, layer);
  kernels::SigmoidGate(stream_, {NumberType::kF32, buffers_.attended.data(), buffers_.qkv.data() + width - gates,
                                 tokens_, HeadsWidth(layer), width, spec_.gate_by_head ? l.head_dim : 1});
}

void CpuDecoder::NormMixerIn(int64_t layer) {
  if (mixers_.in_width() == 0) return;  // other ranks have all heads of this layer
  const LayerWeights& w = weights(layer);
  const float* x = Normed(w.attention_norm);
  Matmul(x, w.mixer.in, mixers_.in(), mixers_.in_width(), tokens_, activations_);
  AddAdapters(WeightPlace::kMixerIn, layer, x, spec_.hidden_size, AdaptersOf({0, tokens_}), mixers_.in(),
              mixers_.in_width());
}

void CpuDecoder::MixTokens(int64_t layer) { mixers_.Mix(layer, weights(layer).mixer, *inputs_, *cache_); }

void CpuDecoder::AdvanceStates(std::span<const int32_t> rows) {
  for (int64_t layer = shard_.stage.begin; layer < shard_.stage.end; ++layer) {
    if (LayerOf(layer).has_state()) mixers_.AdvanceHeld(layer, weights(layer).mixer, *inputs_, rows, *cache_);
  }
}

void CpuDecoder::AddMixed(int64_t layer) {
  const LayerWeights& w = weights(layer);
  AddProduct(layer, {mixers_.out(), w.mixer.out, {}, WeightPlace::kMixerOut, spec_.scales.state_out},
             w.attention_after_norm);
}

}  // namespace quire
