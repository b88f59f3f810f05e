// CudaDecoder's attention operations. Each kernel call lists its params, even those that several share, so that a
// reader sees a kernel's inputs in one place.
#include <algorithm>

#include "comm/base/error.h"
#include "kernels/cuda/decode/decode_attention.h"
#include "kernels/cuda/elementwise/rope_kv_write.h"
#include "kernels/cuda/paged/paged_decode.h"
#include "kernels/cuda/prefill/prefill_attention.h"
#include "kernels/sigmoid_gate.h"
#include "kernels/sum_squares.h"
#include "worker/cuda/decoder/cuda_decoder.h"

namespace quire {

void CudaDecoder::PositionAndStore(int64_t layer) {
  if (spec_.latent.rank > 0) return StoreLatents(layer);
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  const int64_t rope = LayerOf(layer).rope;
  const float* squares = spec_.qk_norm == QkNorm::kWhole ? SquaresOfAllRanks(layer) : nullptr;
  kernels::PagedCache cache = cache_->Layer(layer);
  if (!LayerOf(layer).has_kv()) cache.num_kv_heads = 0;  // no keys and values of its own to write
  kernels::RopeKvWrite(device_.stream(),
                       {.dtype = sizes_.dtype,
                        .qkv = a.qkv,
                        .row_stride = QkvWidth(layer),
                        .cos_sin = rope < 0 ? nullptr : memory_.ropes[static_cast<size_t>(rope)],
                        .positions = step_->arrays.positions,
                        .slots = step_->arrays.slots,
                        .num_tokens = shape_.num_rows,
                        .num_heads = static_cast<int32_t>(sizes_.shard.heads.size()),
                        .rotary_dim = static_cast<int32_t>(spec_.rotated_dims(LayerOf(layer))),
                        .cache = cache,
                        .bias = w.qkv_bias,
                        .query_norm = w.query_norm,
                        .key_norm = w.key_norm,
                        .value_norm = spec_.value_norm ? weights_.value_norm : nullptr,
                        .norm_rotated = spec_.qk_norm_rotated,
                        .epsilon = static_cast<float>(spec_.norm_epsilon),
                        .query_cos_sin = rope < 0 ? nullptr : memory_.query_ropes[static_cast<size_t>(rope)],
                        .squares = squares,
                        .all_query_numbers = Extent(spec_, Axis::kQueries, layer),
                        .all_key_numbers = Extent(spec_, Axis::kKeyValues, layer)});
}

const float* CudaDecoder::SquaresOfAllRanks(int64_t layer) {
  // If several ranks have a KV head, only the rank with the KV head's first query head counts it.
  const Activations& a = memory_.activations;
  const int64_t dim = LayerOf(layer).head_dim, counted = CountedKvHeads(spec_, sizes_.shard, layer) * dim;
  const int64_t past_keys = (sizes_.shard.heads.size() + sizes_.shard.layer(layer).kv_heads.size()) * dim;
  kernels::SumSquares(device_.stream(), {sizes_.dtype, a.qkv, QkvWidth(layer), shape_.num_rows, HeadsWidth(layer),
                                         past_keys - counted, counted, a.squares});
  if (collective_ != nullptr) {
    collective_->AllReduceSum(a.squares, shape_.num_rows * 2, NumberType::kF32, device_.stream().handle);
  }
  return a.squares;
}

void CudaDecoder::Attend(int64_t layer) {
  const auto kind = static_cast<size_t>(std::ranges::find(kinds_, KindOf(LayerOf(layer))) - kinds_.begin());
  if (spec_.latent.rank > 0) return AttendLatents(layer, kind);
  if (shape_.num_decodes > 0) AttendDecodes(layer, kind);
  if (shape_.num_chunks > 0) AttendChunks(layer, kind);
  if (!spec_.attention_gate) return;
  const Activations& a = memory_.activations;
  const int64_t first = quire::QkvWidth(spec_, sizes_.shard, layer) - GateWidth(spec_, sizes_.shard, layer);
  const auto* gates = static_cast<const std::byte*>(a.qkv) + first * ByteSize(sizes_.dtype);
  kernels::SigmoidGate(device_.stream(), {sizes_.dtype, a.attended, gates, shape_.num_rows, HeadsWidth(layer),
                                          QkvWidth(layer), spec_.gate_by_head ? LayerOf(layer).head_dim : 1});
}

void CudaDecoder::AttendUnplanned(int64_t layer, size_t kind) {
  const Activations& a = memory_.activations;
  const kernels::PagedDecodeParams params = {.dtype = sizes_.dtype,
                                             .queries = a.qkv,
                                             .query_stride = QkvWidth(layer),
                                             .out = a.attended,
                                             .out_stride = HeadsWidth(layer),
                                             .cache = cache_->Layer(layer),
                                             .block_tables = step_->block_tables,
                                             .table_stride = step_->table_stride,
                                             .table_rows = step_->arrays.decode_table,
                                             .context_len = step_->arrays.decode_context,
                                             .kv_head_of = memory_.kv_head_of[kind],
                                             .alibi_slopes = memory_.alibi_slopes,
                                             .num_seqs = static_cast<int32_t>(shape_.num_decodes),
                                             .num_heads = static_cast<int32_t>(sizes_.shard.heads.size()),
                                             .max_context_len = shape_.max_context,
                                             .scale = AttentionScale(spec_, LayerOf(layer)),
                                             .soft_cap = static_cast<float>(spec_.score_cap),
                                             .window = static_cast<int32_t>(LayerOf(layer).window),
                                             .workspace = memory_.workspace,
                                             .sinks = SinksOf(layer)};
  if (sizes_.attention == AttentionBackend::kV1) {
    kernels::PagedDecodeV1(device_.stream(), params);
  } else {
    kernels::PagedDecode(device_.stream(), params);
  }
}

void CudaDecoder::AttendDecodes(int64_t layer, size_t kind) {
  if (sizes_.attention != AttentionBackend::kAuto) return AttendUnplanned(layer, kind);
  const Activations& a = memory_.activations;
  kernels::DecodeAttention(device_.stream(), {.dtype = sizes_.dtype,
                                              .queries = a.qkv,
                                              .query_stride = QkvWidth(layer),
                                              .out = a.attended,
                                              .out_stride = HeadsWidth(layer),
                                              .cache = cache_->Layer(layer),
                                              .block_tables = step_->block_tables,
                                              .table_stride = step_->table_stride,
                                              .table_rows = step_->arrays.decode_table,
                                              .alibi_slopes = memory_.alibi_slopes,
                                              .scale = AttentionScale(spec_, LayerOf(layer)),
                                              .soft_cap = static_cast<float>(spec_.score_cap),
                                              .work = step_->arrays.decode_work[kind],
                                              .work_size = sizes_.kinds[kind].DecodeWork(shape_.num_decodes),
                                              .stages = sizes_.kinds[kind].decode_stages,
                                              .combine = shape_.combines[kind],
                                              .workspace = memory_.workspace,
                                              .sinks = SinksOf(layer)});
}

void CudaDecoder::AttendChunks(int64_t layer, size_t kind) {
  const Activations& a = memory_.activations;
  const int64_t element = ByteSize(sizes_.dtype);
  kernels::PrefillAttention(
      device_.stream(), {.dtype = sizes_.dtype,
                         .queries = static_cast<std::byte*>(a.qkv) + shape_.num_decodes * QkvWidth(layer) * element,
                         .query_stride = QkvWidth(layer),
                         .out = static_cast<std::byte*>(a.attended) + shape_.num_decodes * HeadsWidth(layer) * element,
                         .out_stride = HeadsWidth(layer),
                         .cache = cache_->Layer(layer),
                         .block_tables = step_->block_tables,
                         .table_stride = step_->table_stride,
                         .table_rows = step_->arrays.chunk_table,
                         .query_start = step_->arrays.chunk_start,
                         .context_len = step_->arrays.chunk_context,
                         .head_start = memory_.head_start[kind],
                         .alibi_slopes = memory_.alibi_slopes,
                         .tiles = step_->arrays.tiles[kind],
                         .num_tiles = static_cast<int32_t>(shape_.chunk_work[kind].num_tiles),
                         .scale = AttentionScale(spec_, LayerOf(layer)),
                         .soft_cap = static_cast<float>(spec_.score_cap),
                         .window = static_cast<int32_t>(LayerOf(layer).window),
                         .sinks = SinksOf(layer),
                         .merges = step_->arrays.merges[kind],
                         .num_merges = static_cast<int32_t>(shape_.chunk_work[kind].num_merges),
                         .workspace = memory_.workspace,
                         .in_groups = sizes_.kinds[kind].in_groups});
}

}  // namespace quire
