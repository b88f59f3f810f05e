// What a decoder does between its products in attention: positions, the cache, and attention itself. The params of each
// kernel are spelt whole where it is called, though several have the same pointers: what it reads is seen in one place.
#include <algorithm>

#include "comm/base/error.h"
#include "kernels/cuda/decode/decode_attention.h"
#include "kernels/cuda/elementwise/rope_kv_write.h"
#include "kernels/cuda/paged/paged_decode.h"
#include "kernels/cuda/prefill/prefill_attention.h"
#include "kernels/sum_squares.h"
#include "worker/cuda/cuda_decoder.h"

namespace quire {

void CudaDecoder::PositionAndStore(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  const int64_t rope = LayerOf(layer).rope;
  const float* squares = spec_.qk_norm == QkNorm::kWhole ? SquaresOfAllRanks(layer) : nullptr;
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
                        .cache = cache_->Layer(layer),
                        .bias = w.qkv_bias,
                        .query_norm = w.query_norm,
                        .key_norm = w.key_norm,
                        .epsilon = static_cast<float>(spec_.norm_epsilon),
                        .query_cos_sin = rope < 0 ? nullptr : memory_.query_ropes[static_cast<size_t>(rope)],
                        .squares = squares,
                        .all_query_numbers = Extent(spec_, Axis::kQueries, layer),
                        .all_key_numbers = Extent(spec_, Axis::kKeyValues, layer)});
}

const float* CudaDecoder::SquaresOfAllRanks(int64_t layer) {
  // A KV head that several ranks hold is summed by the one that has its first query head.
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
  const auto found = std::ranges::find(windows_, LayerOf(layer).window);
  const auto window = static_cast<size_t>(found - windows_.begin());
  if (shape_.num_decodes > 0) AttendDecodes(layer, window);
  if (shape_.num_chunks > 0) AttendChunks(layer, window);
}

void CudaDecoder::AttendUnplanned(int64_t layer, size_t window) {
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
                                             .kv_head_of = memory_.kv_head_of,
                                             .alibi_slopes = memory_.alibi_slopes,
                                             .num_seqs = static_cast<int32_t>(shape_.num_decodes),
                                             .num_heads = static_cast<int32_t>(sizes_.shard.heads.size()),
                                             .max_context_len = shape_.max_context,
                                             .scale = AttentionScale(spec_, LayerOf(layer)),
                                             .soft_cap = static_cast<float>(spec_.score_cap),
                                             .window = windows_[window],
                                             .workspace = memory_.workspace,
                                             .sinks = SinksOf(layer)};
  if (sizes_.attention == AttentionBackend::kV1) {
    kernels::PagedDecodeV1(device_.stream(), params);
  } else {
    kernels::PagedDecode(device_.stream(), params);
  }
}

void CudaDecoder::AttendDecodes(int64_t layer, size_t window) {
  if (sizes_.attention != AttentionBackend::kAuto) return AttendUnplanned(layer, window);
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
                                              .work = step_->arrays.decode_work[window],
                                              .work_size = sizes_.decode_work,
                                              .stages = sizes_.decode_stages,
                                              .combine = shape_.combines[window],
                                              .workspace = memory_.workspace,
                                              .sinks = SinksOf(layer)});
}

void CudaDecoder::AttendChunks(int64_t layer, size_t window) {
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
                         .head_start = memory_.head_start,
                         .alibi_slopes = memory_.alibi_slopes,
                         .tiles = step_->arrays.tiles[window],
                         .num_tiles = static_cast<int32_t>(shape_.num_tiles[window]),
                         .scale = AttentionScale(spec_, LayerOf(layer)),
                         .soft_cap = static_cast<float>(spec_.score_cap),
                         .window = windows_[window],
                         .sinks = SinksOf(layer)});
}

}  // namespace quire
