#include "worker/cuda/cuda_llama.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/decode_attention.h"
#include "kernels/cuda/rope_kv_write.h"
#include "kernels/cuda/row_ops.h"
#include "kernels/cuda/step_state.h"
#include "worker/rope_table.h"

namespace quire {

using kernels::SkinnyEpilogue;

namespace {

/// Waits until the copy has run.
template <class T>
void CopyNow(Device& device, const std::vector<T>& from, T* to, const char* purpose) {
  const auto bytes = static_cast<int64_t>(from.size() * sizeof(T));
  const DeviceMemory staging = device.AllocateHost(bytes, purpose);
  std::copy(from.begin(), from.end(), staging.as<T>());
  device.CopyToDevice(to, staging.as(), bytes);
  device.Synchronize();
}

}  // namespace

CudaLlama::Memory::Memory(const ModelConfig& config, const CudaLlamaSizes& sizes, Pieces pieces)
    : cos_sin(pieces.Take<float>(sizes.max_model_len * config.head_dim)),
      head_start(pieces.Take<int32_t>(static_cast<int64_t>(sizes.shard.head_start.size()))),
      workspace(pieces.Take<float>(sizes.decode_work.WorkspaceFloats(config.head_dim))),
      activations(config, sizes.shard, sizes.dtype, sizes.max_tokens, sizes.max_draws, sizes.logits_width, pieces),
      bytes(pieces.taken()) {}

CudaLlama::CudaLlama(const ModelFiles& files, const CudaLlamaSizes& sizes, Device& device,
                     NormingCollective* collective, const std::function<void(int64_t, int64_t)>& progress)
    : config_(files.config()),
      sizes_(sizes),
      device_(device),
      collective_(collective),
      weights_(files, sizes.shard, sizes.dtype, device, sizes.threads, progress),
      products_(device),
      reserved_(device.Allocate(Memory(config_, sizes, Pieces()).bytes, "the activations of a step")),
      memory_(config_, sizes, Pieces(reserved_.as())) {
  CopyNow(device, RopeTable(config_, sizes.max_model_len), memory_.cos_sin, "the table of rotations");
  CopyNow(device, sizes.shard.head_start, memory_.head_start, "the groups of heads");
  if (collective_ != nullptr)
    Norm(memory_.activations.delta, weights_.final_norm, 1);  // ranks connect at their first call
}

bool CudaLlama::CanFuse(int64_t num_rows) const {
  const Activations& a = memory_.activations;
  return collective_ == nullptr &&
         kernels::SkinnyGemmSupports(sizes_.dtype, num_rows, a.hidden, std::min(a.heads_width, a.mlp_width));
}

bool CudaLlama::IsFused(int64_t num_rows) const {
  const auto found = fused_.find(num_rows);
  return found == fused_.end() ? CanFuse(num_rows) : found->second;
}

void CudaLlama::Forward(const StepShape& shape, const StepOnDevice& step, const CudaKvCache& cache) {
  kernels::FeedTokens(device_.stream(),
                      {step.arrays.from_slot, step.last_tokens, step.arrays.token_ids, shape.num_rows});
  kernels::Embedding(device_.stream(),
                     {sizes_.dtype, weights_.embedding, step.arrays.token_ids, memory_.activations.residual,
                      shape.num_rows, config_.hidden_size, 0, config_.vocab_size});
  const bool fused = IsFused(shape.num_rows);
  void* delta = nullptr;
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const CudaLayerWeights& layer = weights_.layers[i];
    BeforeAttention(layer, delta, shape.num_rows, fused);
    Attention(shape, step, cache.Layer(static_cast<int64_t>(i)));
    if (fused) {
      FusedAfterAttention(layer, shape.num_rows);
    } else {
      AfterAttention(layer, shape.num_rows);
      delta = memory_.activations.delta;
    }
  }
  Logits(shape, step, delta);
}

void CudaLlama::BeforeAttention(const CudaLayerWeights& layer, void* delta, int64_t rows, bool fused) {
  const Activations& a = memory_.activations;
  if (fused) {
    kernels::SkinnyGemm(device_.stream(), Fused(a.residual, a.hidden, layer.input_norm, layer.qkv, a.qkv, a.qkv_width,
                                                rows, SkinnyEpilogue::kStore));
  } else {
    Norm(delta, layer.input_norm, rows);
    products_.Run(Product(a.normed, a.hidden, layer.qkv, a.qkv, a.qkv_width, rows));
  }
}

void CudaLlama::FusedAfterAttention(const CudaLayerWeights& layer, int64_t rows) {
  const Activations& a = memory_.activations;
  const kernels::CudaStream stream = device_.stream();
  kernels::SkinnyGemm(stream, Fused(a.attended, a.heads_width, nullptr, layer.o, a.residual, a.hidden, rows,
                                    SkinnyEpilogue::kAddResidual));
  kernels::SkinnyGemm(stream, Fused(a.residual, a.hidden, layer.post_attention_norm, layer.gate_up, a.activated,
                                    2 * a.mlp_width, rows, SkinnyEpilogue::kSiluMul));
  kernels::SkinnyGemm(stream, Fused(a.activated, a.mlp_width, nullptr, layer.down, a.residual, a.hidden, rows,
                                    SkinnyEpilogue::kAddResidual));
}

void CudaLlama::AfterAttention(const CudaLayerWeights& layer, int64_t rows) {
  const Activations& a = memory_.activations;
  products_.Run(Product(a.attended, a.heads_width, layer.o, a.delta, a.hidden, rows));
  Norm(a.delta, layer.post_attention_norm, rows);
  if (a.mlp_width == 0) {  // this rank has no part of the MLP
    device_.SetZero(a.delta, rows * a.hidden * kernels::ByteSize(sizes_.dtype));
  } else {
    products_.Run(Product(a.normed, a.hidden, layer.gate_up, a.gate_up, 2 * a.mlp_width, rows));
    kernels::SiluMul(device_.stream(), {sizes_.dtype, a.gate_up, a.activated, rows, a.mlp_width, true});
    products_.Run(Product(a.activated, a.mlp_width, layer.down, a.delta, a.hidden, rows));
  }
}

void CudaLlama::Attention(const StepShape& shape, const StepOnDevice& step, const kernels::PagedCache& cache) {
  const Activations& a = memory_.activations;
  const auto heads = static_cast<int32_t>(sizes_.shard.heads.size()), dim = static_cast<int32_t>(config_.head_dim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  const auto window = static_cast<int32_t>(config_.sliding_window);
  kernels::RopeKvWrite(device_.stream(), {sizes_.dtype, a.qkv, a.qkv_width, memory_.cos_sin, step.arrays.positions,
                                          step.arrays.slots, shape.num_rows, heads, dim, cache});
  if (shape.num_decodes > 0) {
    kernels::DecodeAttention(device_.stream(), {.dtype = sizes_.dtype,
                                                .queries = a.qkv,
                                                .query_stride = a.qkv_width,
                                                .out = a.attended,
                                                .out_stride = a.heads_width,
                                                .cache = cache,
                                                .block_tables = step.block_tables,
                                                .table_stride = step.table_stride,
                                                .table_rows = step.arrays.decode_table,
                                                .alibi_slopes = nullptr,
                                                .scale = scale,
                                                .soft_cap = 0,
                                                .work = step.arrays.decode_work,
                                                .work_size = sizes_.decode_work,
                                                .stages = sizes_.decode_stages,
                                                .combine = shape.combines,
                                                .workspace = memory_.workspace});
  }
  if (shape.num_chunks > 0) {
    const int64_t element = kernels::ByteSize(sizes_.dtype);
    kernels::PrefillAttention(device_.stream(),
                              {.dtype = sizes_.dtype,
                               .queries = static_cast<std::byte*>(a.qkv) + shape.num_decodes * a.qkv_width * element,
                               .query_stride = a.qkv_width,
                               .out = static_cast<std::byte*>(a.attended) + shape.num_decodes * a.heads_width * element,
                               .out_stride = a.heads_width,
                               .cache = cache,
                               .block_tables = step.block_tables,
                               .table_stride = step.table_stride,
                               .table_rows = step.arrays.chunk_table,
                               .query_start = step.arrays.chunk_start,
                               .context_len = step.arrays.chunk_context,
                               .head_start = memory_.head_start,
                               .alibi_slopes = nullptr,
                               .tiles = step.arrays.tiles,
                               .num_tiles = static_cast<int32_t>(shape.num_tiles),
                               .scale = scale,
                               .soft_cap = 0,
                               .window = window});
  }
}

void CudaLlama::Logits(const StepShape& shape, const StepOnDevice& step, void* delta) {
  const Activations& a = memory_.activations;
  const int64_t vocab = sizes_.shard.vocab.size(), draws = shape.num_draws;
  if (draws == 0) return;
  if (shape.num_chunks == 0 && IsFused(shape.num_rows)) {
    kernels::SkinnyGemmParams product = Fused(a.residual, a.hidden, weights_.final_norm, weights_.lm_head, a.logits,
                                              vocab, draws, SkinnyEpilogue::kStoreFloat);
    product.out_stride = a.logits_width;
    return kernels::SkinnyGemm(device_.stream(), product);
  }
  Norm(delta, weights_.final_norm, shape.num_rows);  // also where there is no vocabulary: ranks sum in here
  if (vocab == 0) return;
  void* rows = a.normed;
  if (shape.num_chunks > 0) {
    rows = a.drawing;
    kernels::GatherRows(device_.stream(),
                        {a.normed, step.arrays.draw_row, draws, a.hidden * kernels::ByteSize(sizes_.dtype), rows});
  }
  GemmParams product = Product(rows, a.hidden, weights_.lm_head, a.logits, vocab, draws);
  product.y_stride = a.logits_width;
  product.float_result = true;
  products_.Run(product);
}

void CudaLlama::Norm(void* delta, const void* weight, int64_t rows) {
  const Activations& a = memory_.activations;
  const kernels::CudaRmsNormParams norm{
      sizes_.dtype, a.residual, delta, weight, a.normed, rows, a.hidden, static_cast<float>(config_.rms_norm_epsilon)};
  if (delta != nullptr && collective_ != nullptr) {
    collective_->AllReduceRmsNorm(delta, norm, device_.stream().handle);
  } else {
    kernels::RmsNorm(device_.stream(), norm);
  }
}

GemmParams CudaLlama::Product(const void* x, int64_t k, const void* weight, void* y, int64_t n, int64_t m) const {
  return {
      .dtype = sizes_.dtype, .x = x, .weight = weight, .y = y, .x_stride = k, .y_stride = n, .m = m, .n = n, .k = k};
}

kernels::SkinnyGemmParams CudaLlama::Fused(const void* x, int64_t k, const void* norm, const void* weight, void* out,
                                           int64_t n, int64_t m, SkinnyEpilogue epilogue) const {
  return {.dtype = sizes_.dtype,
          .x = x,
          .x_stride = k,
          .weight = weight,
          .norm_weight = norm,
          .epsilon = static_cast<float>(config_.rms_norm_epsilon),
          .out = out,
          .out_stride = epilogue == SkinnyEpilogue::kSiluMul ? n / 2 : n,
          .n = n,
          .k = k,
          .m = static_cast<int32_t>(m),
          .epilogue = epilogue,
          .tile = kernels::SkinnyTile::kByShape};
}

}  // namespace quire
