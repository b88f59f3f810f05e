// CudaDecoder's latent attention (comm/model/latent_attention.h), in the absorbed form for prompts and decodes: queries
// are multiplied into the latent space once, and attention's means of latents are multiplied into values once, head by
// head in one batch.
#include "kernels/cuda/latent/latent_attention.h"
#include "kernels/cuda/latent/latent_write.h"
#include "kernels/rms_norm.h"
#include "worker/cuda/decoder/cuda_decoder.h"

namespace quire {

void CudaDecoder::ProjectLatents(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLatentActivations& l = memory_.latents;
  const CudaLayerWeights& w = weights(layer);
  const LatentAttention& latent = spec_.latent;
  const int64_t rows = shape_.num_rows, heads = sizes_.shard.heads.size(), query_dim = latent.query_dim();
  const void* x = Normed(w.attention_norm, w.attention_norm_bias);
  products_.Run(Product(x, a.hidden, w.latents.in, l.in, latent.rank + latent.rotated_dim, rows));
  int64_t width = a.hidden;
  if (latent.query_rank > 0) {
    width = latent.query_rank;
    products_.Run(Product(x, a.hidden, w.latents.query_in, l.query_in, width, rows));
    kernels::RmsNorm(device_.stream(), {sizes_.dtype, l.query_in, nullptr, w.latents.query_norm, l.query_normed, rows,
                                        width, static_cast<float>(latent.norm_epsilon)});
    x = l.query_normed;
  }
  products_.Run(Product(x, width, w.latents.query, l.queries, heads * query_dim, rows));
  // Multiplies the unrotated part of each head's query by the matrix that makes the head's keys from latents.
  void* to = static_cast<std::byte*>(a.qkv) + latent.rotated_dim * ByteSize(sizes_.dtype);
  GemmParams absorb = Product(l.queries, latent.key_dim, w.latents.keys, to, latent.rank, rows);
  absorb.x_stride = heads * query_dim;
  absorb.y_stride = HeadsWidth(layer);
  absorb.batch = heads;
  absorb.x_apart = query_dim;
  absorb.weight_apart = latent.rank * latent.key_dim;
  absorb.y_apart = LayerOf(layer).head_dim;
  products_.Run(absorb);
}

void CudaDecoder::StoreLatents(int64_t layer) {
  const CudaLatentActivations& l = memory_.latents;
  const LatentAttention& latent = spec_.latent;
  kernels::LatentWrite(device_.stream(), {.dtype = sizes_.dtype,
                                          .rows = l.in,
                                          .norm = weights(layer).latents.norm,
                                          .epsilon = static_cast<float>(latent.norm_epsilon),
                                          .queries = l.queries,
                                          .out = memory_.activations.qkv,
                                          .num_heads = static_cast<int32_t>(sizes_.shard.heads.size()),
                                          .query_dim = static_cast<int32_t>(latent.query_dim()),
                                          .rotated_dim = static_cast<int32_t>(latent.rotated_dim),
                                          .rank = static_cast<int32_t>(latent.rank),
                                          .interleaved = spec_.interleaved_rope_rows,
                                          .cos_sin = memory_.ropes[static_cast<size_t>(LayerOf(layer).rope)],
                                          .positions = step_->arrays.positions,
                                          .slots = step_->arrays.slots,
                                          .num_tokens = shape_.num_rows,
                                          .cache = cache_->Layer(layer)});
}

void CudaDecoder::AttendLatents(int64_t layer, size_t kind) {
  if (shape_.num_decodes > 0) AttendLatentDecodes(layer, kind);
  if (shape_.num_chunks > 0) AttendLatentChunks(layer, kind);
  const LatentAttention& latent = spec_.latent;
  const int64_t heads = sizes_.shard.heads.size();
  GemmParams expand = Product(memory_.activations.attended, latent.rank, weights(layer).latents.values,
                              memory_.latents.values, latent.value_dim, shape_.num_rows);
  expand.x_stride = heads * latent.rank;
  expand.y_stride = heads * latent.value_dim;
  expand.batch = heads;
  expand.x_apart = latent.rank;
  expand.weight_apart = latent.value_dim * latent.rank;
  expand.y_apart = latent.value_dim;
  products_.Run(expand);
}

void CudaDecoder::AttendLatentDecodes(int64_t layer, size_t kind) {
  const Activations& a = memory_.activations;
  kernels::LatentDecode(device_.stream(),
                        {.dtype = sizes_.dtype,
                         .queries = a.qkv,
                         .query_stride = HeadsWidth(layer),
                         .out = a.attended,
                         .out_stride = sizes_.shard.heads.size() * spec_.latent.rank,
                         .cache = cache_->Layer(layer),
                         .block_tables = step_->block_tables,
                         .table_stride = step_->table_stride,
                         .table_rows = step_->arrays.decode_table,
                         .alibi_slopes = nullptr,
                         .scale = AttentionScale(spec_, LayerOf(layer)),
                         .soft_cap = 0,
                         .work = step_->arrays.decode_work[kind],
                         .work_size = sizes_.kinds[kind].DecodeWork(shape_.num_decodes),
                         .stages = sizes_.kinds[kind].decode_stages,
                         .combine = shape_.combines[kind],
                         .workspace = memory_.workspace},
                        static_cast<int32_t>(spec_.latent.rank));
}

void CudaDecoder::AttendLatentChunks(int64_t layer, size_t kind) {
  const Activations& a = memory_.activations;
  const int64_t element = ByteSize(sizes_.dtype), out_stride = sizes_.shard.heads.size() * spec_.latent.rank;
  kernels::LatentPrefill(device_.stream(),
                         {.dtype = sizes_.dtype,
                          .queries = static_cast<std::byte*>(a.qkv) + shape_.num_decodes * HeadsWidth(layer) * element,
                          .query_stride = HeadsWidth(layer),
                          .out = static_cast<std::byte*>(a.attended) + shape_.num_decodes * out_stride * element,
                          .out_stride = out_stride,
                          .cache = cache_->Layer(layer),
                          .block_tables = step_->block_tables,
                          .table_stride = step_->table_stride,
                          .table_rows = step_->arrays.chunk_table,
                          .query_start = step_->arrays.chunk_start,
                          .context_len = step_->arrays.chunk_context,
                          .head_start = memory_.head_start[kind],
                          .alibi_slopes = nullptr,
                          .tiles = step_->arrays.tiles[kind],
                          .num_tiles = static_cast<int32_t>(shape_.chunk_work[kind].num_tiles),
                          .scale = AttentionScale(spec_, LayerOf(layer)),
                          .soft_cap = 0,
                          .window = 0,
                          .merges = step_->arrays.merges[kind],
                          .num_merges = static_cast<int32_t>(shape_.chunk_work[kind].num_merges),
                          .workspace = memory_.workspace},
                         static_cast<int32_t>(spec_.latent.rank), sizes_.kinds[kind].tile_rows);
}

}  // namespace quire
