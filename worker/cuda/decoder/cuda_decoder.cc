#include "worker/cuda/decoder/cuda_decoder.h"

#include <algorithm>

#include "kernels/add_rows.h"
#include "kernels/cap_logits.h"
#include "kernels/cuda/elementwise/step_state.h"
#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "worker/model/weight_slice.h"

namespace quire {

using kernels::SkinnyEpilogue;

CudaDecoder::CudaDecoder(const ModelFiles& files, const CudaDecoderSizes& sizes, Device& device,
                         NormingCollective* collective, const std::function<void(int64_t, int64_t)>& progress)
    : spec_(files.spec()),
      sizes_(sizes),
      device_(device),
      collective_(collective),
      weights_(files, sizes.shard, sizes.dtype, sizes.quantization, device, sizes.threads, progress),
      products_(device, weights_.expanded().as<void>(), weights_.expanded().bytes()),
      reserved_(device.Allocate(Memory(spec_, sizes, Pieces()).bytes, "the activations of a step")),
      memory_(spec_, sizes, Pieces(reserved_.as())),
      kinds_(KindsOf(spec_)),
      states_(spec_, sizes_.shard) {
  LoadTables(files);
  if (collective_ == nullptr) return;
  shape_.num_rows = 1;  // run each collective once, because ranks connect at the first call
  pending_ = memory_.activations.delta;
  Norm(weights_.final_norm, weights_.final_norm_bias);
  if (spec_.norms_after) AddNormOfDelta(weights_.final_norm, 1);
  if (memory_.activations.squares != nullptr) SquaresOfAllRanks(0);
  if (memory_.mixers.shape.mixer == Mixer::kStateSpace)
    NormGroups(std::ranges::find_if(spec_.layers, &LayerSpec::has_state) - spec_.layers.begin());
}

bool CudaDecoder::CanFuse(int64_t num_rows) const {
  const Activations& a = memory_.activations;
  const bool plain = spec_.norm == NormKind::kRms && spec_.gated_mlp && !spec_.out_bias && !spec_.mlp_bias &&
                     !spec_.parallel_block && !spec_.embedding_norm && spec_.norms_before && !spec_.norms_after &&
                     spec_.activation == Activation::kSilu && spec_.residual_scale == 1 &&
                     spec_.num_mixture_layers() == 0 && spec_.num_state_layers() == 0 && spec_.latent.rank == 0 &&
                     !spec_.gate_by_head;
  if (!plain || collective_ != nullptr || weights_.expanded().bytes() > 0) return false;  // quantised: not fused
  int64_t narrowest = a.hidden;
  for (int64_t layer = 0; layer < spec_.num_layers(); ++layer)
    narrowest = std::min({narrowest, HeadsWidth(layer), MlpWidth(layer)});
  return kernels::SkinnyGemmSupports(sizes_.dtype, num_rows, a.hidden, narrowest);
}

bool CudaDecoder::IsFused(int64_t num_rows) const {
  const auto found = fused_of_.find(num_rows);
  return found == fused_of_.end() ? CanFuse(num_rows) : found->second;
}

void CudaDecoder::Forward(const StepShape& shape, const StepOnDevice& step, const CudaKvCache& cache) {
  shape_ = shape;
  step_ = &step;
  cache_ = &cache;
  fused_ = IsFused(shape.num_rows);
  pending_ = nullptr;
  Decode(spec_, *this);
}

void CudaDecoder::Embed() {
  const StepArrays& arrays = step_->arrays;
  kernels::FeedTokens(device_.stream(), {arrays.from_slot, step_->last_tokens, arrays.token_ids, shape_.num_rows});
  const Activations& a = memory_.activations;
  kernels::Embedding(device_.stream(), {.dtype = sizes_.dtype,
                                        .table = Table(weights_.embedding, spec_.vocab_size, a.hidden),
                                        .token_ids = arrays.token_ids,
                                        .out = a.residual,
                                        .num_tokens = shape_.num_rows,
                                        .scale = static_cast<float>(spec_.embedding_scale)});
  if (spec_.position == Position::kLearned) {
    kernels::Embedding(device_.stream(),
                       {.dtype = sizes_.dtype,
                        .table = Table(weights_.positions, Extent(spec_, Axis::kPositionRows, 0), a.hidden),
                        .token_ids = arrays.positions,
                        .out = a.residual,
                        .num_tokens = shape_.num_rows,
                        .first_id = -spec_.position_offset,
                        .adds = true});
  }
  if (spec_.layer_input_size > 0) MakeLayerInputs();
  if (!spec_.embedding_norm) return;
  kernels::LayerNorm(device_.stream(),
                     {sizes_.dtype, a.residual, nullptr, weights_.embedding_norm, weights_.embedding_norm_bias,
                      a.residual, shape_.num_rows, a.hidden, static_cast<float>(spec_.norm_epsilon)});
}

void CudaDecoder::NormQkv(int64_t layer) {
  if (spec_.latent.rank > 0) return ProjectLatents(layer);
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  if (fused_) {
    kernels::SkinnyGemm(device_.stream(), Fused(a.residual, a.hidden, w.attention_norm, w.qkv.front().matrix.data,
                                                a.qkv, QkvWidth(layer), shape_.num_rows, SkinnyEpilogue::kStore));
  } else {
    const void* x = Normed(w.attention_norm, w.attention_norm_bias);
    for (const QkvPart& part : w.qkv) {
      void* y = static_cast<std::byte*>(a.qkv) + part.first * ByteSize(sizes_.dtype);
      GemmParams product = Product(x, a.hidden, part.matrix, y, part.rows, shape_.num_rows);
      product.y_stride = QkvWidth(layer);
      products_.Run(product);
    }
  }
}

void CudaDecoder::AddAttention(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  const void* values = spec_.latent.rank > 0 ? memory_.latents.values : a.attended;
  AddProduct(values, OutWidth(layer), w.attention_out, w.attention_out_bias, w.attention_after_norm, 1);
}

void CudaDecoder::NormMlpIn(int64_t layer) {
  const Activations& a = memory_.activations;
  const int64_t width = MlpWidth(layer);
  const CudaLayerWeights& w = weights(layer);
  if (fused_) {
    kernels::SkinnyGemm(device_.stream(), Fused(a.residual, a.hidden, w.mlp_norm, w.mlp_in.data, a.activated, 2 * width,
                                                shape_.num_rows, SkinnyEpilogue::kGateMul));
    return;
  }
  const void* x = spec_.shared_norm ? a.normed : Normed(w.mlp_norm, w.mlp_norm_bias);
  if (width == 0) return;  // this rank has no part of the MLP
  if (!spec_.gated_mlp) {
    products_.Run(Product(x, a.hidden, w.mlp_in, a.activated, width, shape_.num_rows));
    return kernels::Activate(
        device_.stream(), {sizes_.dtype, a.activated, w.up_bias, shape_.num_rows, width, AsKernel(spec_.activation)});
  }
  products_.Run(Product(x, a.hidden, w.mlp_in, a.gate_up, 2 * width, shape_.num_rows));
  kernels::GateMul(device_.stream(),
                   {sizes_.dtype, a.gate_up, a.activated, shape_.num_rows, width, true, AsKernel(spec_.activation)});
}

void CudaDecoder::AddMlp(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  AddProduct(a.activated, MlpWidth(layer), w.down, w.down_bias, w.mlp_after_norm, ScaleAfterMlp(layer));
}

void CudaDecoder::AddAttentionAndMlp(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  MultiplyOut(a.attended, HeadsWidth(layer), w.attention_out, w.attention_out_bias, a.delta);
  MultiplyOut(a.activated, MlpWidth(layer), w.down, w.down_bias, a.second_delta);
  kernels::AddRows(device_.stream(),
                   {sizes_.dtype, a.delta, a.second_delta, shape_.num_rows, a.hidden, a.hidden, a.hidden});
  pending_ = a.delta;
}

void CudaDecoder::AddProduct(const void* x, int64_t k, const DeviceMatrix& weight, const void* bias,
                             const void* after_norm, float scale) {
  const Activations& a = memory_.activations;
  if (fused_) {
    return kernels::SkinnyGemm(device_.stream(), Fused(x, k, nullptr, weight.data, a.residual, a.hidden,
                                                       shape_.num_rows, SkinnyEpilogue::kAddResidual));
  }
  MultiplyOut(x, k, weight, bias, a.delta);
  if (after_norm != nullptr) return AddNormOfDelta(after_norm, scale);
  pending_ = a.delta;
}

void CudaDecoder::AddNormOfDelta(const void* weight, float scale) {
  const Activations& a = memory_.activations;
  if (collective_ != nullptr) {
    collective_->AllReduceSum(a.delta, shape_.num_rows * a.hidden, sizes_.dtype, device_.stream().handle);
  }
  kernels::RmsNorm(device_.stream(), {sizes_.dtype, a.delta, nullptr, weight, a.residual, shape_.num_rows, a.hidden,
                                      static_cast<float>(spec_.norm_epsilon), true, scale});
}

void CudaDecoder::MultiplyOut(const void* x, int64_t k, const DeviceMatrix& weight, const void* bias, void* out) {
  const int64_t hidden = spec_.hidden_size;
  if (k == 0) {
    device_.SetZero(out, shape_.num_rows * hidden * ByteSize(sizes_.dtype));
  } else {
    GemmParams product = Product(x, k, weight, out, hidden, shape_.num_rows);
    product.scale = static_cast<float>(spec_.residual_scale);
    products_.Run(product);
  }
  if (bias == nullptr || (collective_ != nullptr && collective_->rank() != 0)) return;
  kernels::AddRows(device_.stream(), {sizes_.dtype, out, bias, shape_.num_rows, hidden, hidden, 0});
}

void CudaDecoder::Logits() {
  const Activations& a = memory_.activations;
  const int64_t vocab = sizes_.shard.vocab.size(), draws = shape_.num_draws;
  if (draws == 0 && !shape_.keeps_rows) return;
  if (shape_.num_chunks == 0 && fused_) {
    kernels::SkinnyGemmParams product = Fused(a.residual, a.hidden, weights_.final_norm, weights_.head, a.logits, vocab,
                                              draws, SkinnyEpilogue::kStoreFloat);
    product.out_stride = a.logits_width;
    kernels::SkinnyGemm(device_.stream(), product);
    return CapLogits(draws);
  }
  Norm(weights_.final_norm, weights_.final_norm_bias);  // even without a local vocabulary: the ranks sum in this norm
  if (draws == 0) return;
  void* rows = a.normed;
  if (shape_.num_chunks > 0) {
    rows = a.drawing;
    kernels::GatherRows(device_.stream(),
                        {a.normed, step_->arrays.draw_row, draws, a.hidden * ByteSize(sizes_.dtype), rows});
  }
  MultiplyHead(rows, draws);
}

void CudaDecoder::LogitsOfRows(int64_t row, int64_t count) { MultiplyHead(NormedRows(row), count); }

const std::byte* CudaDecoder::NormedRows(int64_t row) const {
  const Activations& a = memory_.activations;
  return static_cast<const std::byte*>(a.normed) + row * a.hidden * ByteSize(sizes_.dtype);
}

void CudaDecoder::MultiplyHead(const void* rows, int64_t count) {
  const Activations& a = memory_.activations;
  const int64_t vocab = sizes_.shard.vocab.size();
  if (vocab == 0) return;
  GemmParams product = Product(rows, a.hidden, weights_.head, a.logits, vocab, count);
  product.y_stride = a.logits_width;
  product.float_result = true;
  products_.Run(product);
  if (memory_.head_bias != nullptr) {
    kernels::AddRows(device_.stream(),
                     {NumberType::kF32, a.logits, memory_.head_bias, count, a.logits_width, a.logits_width, 0});
  }
  CapLogits(count);
}

void CudaDecoder::CapLogits(int64_t count) {
  if (spec_.logit_scale == 1 && spec_.logit_cap == 0) return;
  const Activations& a = memory_.activations;
  kernels::CapLogits(device_.stream(), {a.logits, count, sizes_.shard.vocab.size(), a.logits_width,
                                        static_cast<float>(spec_.logit_scale), static_cast<float>(spec_.logit_cap)});
}

const void* CudaDecoder::Normed(const void* weight, const void* bias) {
  if (weight == nullptr) return memory_.activations.residual;  // nothing is pending without this norm
  Norm(weight, bias);
  return memory_.activations.normed;
}

void CudaDecoder::Norm(const void* weight, const void* bias) {
  const Activations& a = memory_.activations;
  void* delta = pending_;
  pending_ = nullptr;
  if (spec_.norm == NormKind::kLayer) {
    const int64_t count = shape_.num_rows * a.hidden;
    if (delta != nullptr && collective_ != nullptr) {
      collective_->AllReduceSum(delta, count, sizes_.dtype, device_.stream().handle);
    }
    return kernels::LayerNorm(device_.stream(), {sizes_.dtype, a.residual, delta, weight, bias, a.normed,
                                                 shape_.num_rows, a.hidden, static_cast<float>(spec_.norm_epsilon)});
  }
  const kernels::RmsNormParams norm{sizes_.dtype, a.residual,      delta,    weight,
                                    a.normed,     shape_.num_rows, a.hidden, static_cast<float>(spec_.norm_epsilon)};
  if (delta != nullptr && collective_ != nullptr) {
    collective_->AllReduceRmsNorm(delta, norm, device_.stream().handle);
  } else {
    kernels::RmsNorm(device_.stream(), norm);
  }
}

kernels::Weight CudaDecoder::Table(const void* rows, int64_t count, int64_t width) const {
  return {sizes_.dtype, static_cast<const std::byte*>(rows), count, width, width * ByteSize(sizes_.dtype)};
}

GemmParams CudaDecoder::Product(const void* x, int64_t k, const void* weight, void* y, int64_t n, int64_t m) const {
  return {
      .dtype = sizes_.dtype, .x = x, .weight = weight, .y = y, .x_stride = k, .y_stride = n, .m = m, .n = n, .k = k};
}

kernels::SkinnyGemmParams CudaDecoder::Fused(const void* x, int64_t k, const void* norm, const void* weight, void* out,
                                             int64_t n, int64_t m, SkinnyEpilogue epilogue) const {
  return {.dtype = sizes_.dtype,
          .x = x,
          .x_stride = k,
          .weight = weight,
          .norm_weight = norm,
          .epsilon = static_cast<float>(spec_.norm_epsilon),
          .out = out,
          .out_stride = epilogue == SkinnyEpilogue::kGateMul ? n / 2 : n,
          .n = n,
          .k = k,
          .m = static_cast<int32_t>(m),
          .epilogue = epilogue,
          .tile = kernels::SkinnyTile::kByShape};
}

}  // namespace quire
