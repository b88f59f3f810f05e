#include "worker/cpu/cpu_decoder.h"

#include <algorithm>

#include "comm/base/error.h"
#include "kernels/activation.h"
#include "kernels/add_rows.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/gate_mul.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/scale_columns.h"
#include "worker/model/relative_bias.h"
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
    case ActivationType::kAuto:
      break;  // the coordinator has already replaced kAuto
    case ActivationType::kInt16:
      return kernels::Activations::kInt16;
  }
  Fail("activations of type {} are unknown", static_cast<int>(type));
}

}  // namespace

CpuDecoder::CpuDecoder(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream,
                       const CpuPeers& peers, const EngineSizes& sizes, const Matrices* head)
    : spec_(files.spec()),
      shard_(shard),
      stream_(stream),
      collective_(peers.stage),
      link_(peers.link),
      weights_(files, shard, sizes.compute.quantization, head),
      pages_(files),
      adapters_(files, shard),
      activations_(ActivationsOf(sizes.compute.activations)),
      alibi_slopes_(LocalSlopes(spec_, shard)),
      relative_bias_(RelativeBiasOf(files, shard)),
      buffers_(spec_, shard, sizes.max_step_tokens),
      experts_(spec_, shard, sizes.max_step_tokens),
      mixers_(spec_, shard_, stream, collective_, sizes),
      latents_(spec_, shard_, stream, activations_, sizes.max_step_tokens) {
  if (spec_.scales.mlp_gate != 1) {
    const auto most = std::ranges::max(shard.layers, {}, [](const auto& layer) { return layer.mlp.size(); });
    gate_factors_.assign(static_cast<size_t>(most.mlp.size()), static_cast<float>(spec_.scales.mlp_gate));
  }
  if (spec_.value_norm || spec_.qk_norm_plain) ones_.assign(static_cast<size_t>(LargestHead(spec_)), 1);
  for (int64_t rope = 0; rope < std::ssize(spec_.ropes); ++rope) {
    ropes_.push_back(RopeTable(spec_, rope, sizes.max_model_len));
    query_ropes_.emplace_back();
    if (spec_.ropes[static_cast<size_t>(rope)].query_growth != 0)
      query_ropes_.back() = RopeTable(spec_, rope, sizes.max_model_len, true);
  }
}

void CpuDecoder::Forward(const StepInputs& inputs, const KvCache& cache) {
  inputs_ = &inputs;
  cache_ = &cache;
  tokens_ = inputs.num_tokens();
  normed_ = buffers_.normed.data();
  if (const int64_t chunk = spec_.chunk(); chunk > 0) chunks_.Cut(inputs, chunk);
  Decode(spec_, shard_.stage, *this);
}

void CpuDecoder::Embed() {
  LookUp({.dtype = NumberType::kF32,
          .table = weights_.embedding,
          .token_ids = inputs_->token_ids.data(),
          .out = buffers_.residual.data(),
          .num_tokens = tokens_,
          .scale = static_cast<float>(spec_.embedding_scale)});
  EmbedAdapters();
  if (spec_.position == Position::kLearned) {
    LookUp({.dtype = NumberType::kF32,
            .table = weights_.positions,
            .token_ids = inputs_->positions.data(),
            .out = buffers_.residual.data(),
            .num_tokens = tokens_,
            .adds = true});
  }
  if (spec_.token_types > 0) AddTokenTypes();
  if (spec_.layer_input_size > 0) MakeLayerInputs();
  if (spec_.embedding_norm) Norm(weights_.embedding_norm, buffers_.residual.data());
  if (spec_.predicts) JoinHidden();
}

void CpuDecoder::NormQkv(int64_t layer) {
  const LayerWeights& w = weights(layer);
  if (spec_.latent.rank > 0) return latents_.Project(w.latents, Normed(w.attention_norm), tokens_, buffers_.qkv.data());
  const float* x = NormedInput(w.attention_norm);
  const int64_t width = QkvWidth(spec_, shard_, layer);
  Matmul(x, w.qkv, buffers_.qkv.data(), width, tokens_, activations_);
  AddAdapters(WeightPlace::kQkv, layer, x, spec_.hidden_size, AdaptersOf({0, tokens_}), buffers_.qkv.data(), width);
}

void CpuDecoder::AddAttention(int64_t layer) {
  const LayerWeights& w = weights(layer);
  const float* attended = spec_.latent.rank > 0 ? latents_.values() : buffers_.attended.data();
  AddProduct(layer,
             {attended, w.attention_out, w.attention_out_bias, WeightPlace::kAttentionOut, spec_.scales.attention_out},
             w.attention_after_norm);
  NormSum(w.attention_norm);
}

void CpuDecoder::NormMlpIn(int64_t layer) {
  const int64_t columns = shard_.layer(layer).mlp.size();
  const LayerWeights& w = weights(layer);
  const float* x = spec_.shared_norm ? buffers_.normed.data() : NormedInput(w.mlp_norm);
  if (spec_.gated_mlp) {
    for (int64_t row = 0; row < tokens_; row += kRowsTogether) {
      const int64_t count = std::min(kRowsTogether, tokens_ - row);
      const float* mine = x + row * spec_.hidden_size;
      Matmul(mine, w.mlp_in, buffers_.gate_up.data(), 2 * columns, count, activations_);
      AddAdapters(WeightPlace::kMlpIn, layer, mine, spec_.hidden_size, AdaptersOf({row, count}),
                  buffers_.gate_up.data(), 2 * columns);
      if (!gate_factors_.empty())
        kernels::ScaleColumns(stream_, {buffers_.gate_up.data(), gate_factors_.data(), count, columns, 2 * columns});
      kernels::GateMul(stream_, {NumberType::kF32, buffers_.gate_up.data(), buffers_.activated.data() + row * columns,
                                 count, columns, false, AsKernel(spec_.activation)});
    }
  } else if (columns > 0) {
    Matmul(x, w.mlp_in, buffers_.activated.data(), columns, tokens_, activations_);
    const auto adapters = AdaptersOf({0, tokens_});
    AddAdapters(WeightPlace::kMlpIn, layer, x, spec_.hidden_size, adapters, buffers_.activated.data(), columns);
    kernels::Activate(stream_, {NumberType::kF32, buffers_.activated.data(), DataOf(w.up_bias), tokens_, columns,
                                AsKernel(spec_.activation)});
  }
}

void CpuDecoder::AddMlp(int64_t layer) {
  const LayerWeights& w = weights(layer);
  AddProduct(layer, {buffers_.activated.data(), w.down, w.down_bias, WeightPlace::kDown, spec_.scales.mlp_out},
             w.mlp_after_norm, ScaleAfterMlp(layer));
  NormSum(w.mlp_norm);
}

void CpuDecoder::AddAttentionAndMlp(int64_t layer) {
  const LayerWeights& w = weights(layer);
  MultiplyOut(layer, {buffers_.attended.data(), w.attention_out, w.attention_out_bias, WeightPlace::kAttentionOut},
              {0, tokens_}, buffers_.delta.data());
  MultiplyOut(layer, {buffers_.activated.data(), w.down, w.down_bias, WeightPlace::kDown}, {0, tokens_},
              buffers_.normed.data());
  const int64_t hidden = spec_.hidden_size;
  kernels::AddRows(stream_,
                   {NumberType::kF32, buffers_.delta.data(), buffers_.normed.data(), tokens_, hidden, hidden, hidden});
  AddToResidual({});
}

const float* CpuDecoder::Normed(const NormWeights& weights) {
  if (weights.weight.empty()) return buffers_.residual.data();
  Norm(weights, buffers_.normed.data());
  return buffers_.normed.data();
}

const float* CpuDecoder::NormedInput(const NormWeights& weights) {
  return spec_.norms_sums ? buffers_.residual.data() : Normed(weights);
}

void CpuDecoder::NormSum(const NormWeights& weights) {
  if (spec_.norms_sums) Norm(weights, buffers_.residual.data());
}

void CpuDecoder::Norm(const NormWeights& weights, float* out) {
  const auto epsilon = static_cast<float>(spec_.norm_epsilon);
  const float* weight = weights.weight.data();
  if (spec_.norm == NormKind::kRms) {
    kernels::RmsNorm(stream_, {NumberType::kF32, buffers_.residual.data(), nullptr, weight, out, tokens_,
                               spec_.hidden_size, epsilon});
  } else {
    kernels::LayerNorm(stream_, {NumberType::kF32, buffers_.residual.data(), nullptr, weight, DataOf(weights.bias), out,
                                 tokens_, spec_.hidden_size, epsilon});
  }
}

void CpuDecoder::Matmul(const float* x, const Matrices& weights, float* y, int64_t y_stride, int64_t m,
                        kernels::Activations activations) {
  const auto count = static_cast<int64_t>(weights.size());
  kernels::Matmul(stream_, {x, weights[0].cols, weights.data(), count, y, y_stride, m, activations});
}

void CpuDecoder::MultiplyOut(int64_t layer, const OutProduct& product, Rows rows, float* out) {
  const int64_t columns = product.weight[0].cols, hidden = spec_.hidden_size;
  const float* x = product.x + rows.first * columns;
  Matmul(x, product.weight, out, hidden, rows.count, activations_);
  AddAdapters(product.adapted, layer, x, columns, AdaptersOf(rows), out, hidden);
  if (product.bias.empty() || collective_.rank() != 0) return;
  AddBias(product.bias, out, rows.count, hidden);
}

void CpuDecoder::AddProduct(int64_t layer, const OutProduct& product, const std::vector<float>& after_norm,
                            float scale) {
  const int64_t together = after_norm.empty() ? kRowsTogether : tokens_;
  for (int64_t row = 0; row < tokens_; row += together) {
    const int64_t count = std::min(together, tokens_ - row);
    MultiplyOut(layer, product, {row, count}, buffers_.delta.data());
    if (after_norm.empty()) AddDelta(row, count, product.scale);
  }
  if (!after_norm.empty()) AddNormOfDelta(after_norm, scale);
}

void CpuDecoder::AddBias(const std::vector<float>& bias, float* rows, int64_t count, int64_t stride) {
  kernels::AddRows(stream_, {NumberType::kF32, rows, bias.data(), count, static_cast<int64_t>(bias.size()), stride, 0});
}

void CpuDecoder::AddToResidual(const std::vector<float>& after_norm, float scale) {
  if (after_norm.empty()) {
    AddDelta(0, tokens_);
  } else {
    AddNormOfDelta(after_norm, scale);
  }
}

void CpuDecoder::AddDelta(int64_t row, int64_t rows, double factor) {
  const auto scale = static_cast<float>(spec_.residual_scale * factor);
  float* const residual = buffers_.residual.data() + row * spec_.hidden_size;
  const auto add = [&](int64_t begin, int64_t end, int) {
    const auto count = static_cast<size_t>(end - begin);
    if (scale != 1) {
      for (int64_t i = begin; i < end; ++i) buffers_.delta[static_cast<size_t>(i)] *= scale;
    }
    collective_.AllReduceAdd({buffers_.delta.data() + begin, count}, {residual + begin, count});
  };
  const int64_t count = rows * spec_.hidden_size;
  if (collective_.size() > 1) return add(0, count, 0);
  stream_.pool().ForRange(count, 64, add);  // with one rank there is no barrier, so the threads can add in parallel
}

void CpuDecoder::AddNormOfDelta(const std::vector<float>& weight, float scale) {
  const int64_t count = tokens_ * spec_.hidden_size;
  float* sum = buffers_.delta.data();
  if (collective_.size() > 1) {
    std::fill_n(buffers_.normed.data(), count, 0.0f);
    collective_.AllReduceAdd({buffers_.delta.data(), static_cast<size_t>(count)},
                             {buffers_.normed.data(), static_cast<size_t>(count)});
    sum = buffers_.normed.data();
  }
  kernels::RmsNorm(stream_, {NumberType::kF32, sum, nullptr, weight.data(), buffers_.residual.data(), tokens_,
                             spec_.hidden_size, static_cast<float>(spec_.norm_epsilon), true, scale});
}

}  // namespace quire
