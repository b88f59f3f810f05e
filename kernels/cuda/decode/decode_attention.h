#pragma once

#include "kernels/cuda/decode/decode_attention_plan.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Attention of one new token per sequence over its paged keys and values, the new token's included (written before),
/// on tensor cores. The token stands at position context_len - 1 and sees what PlanDecode() was told: all before it, or
/// the last `window` positions, itself included. Slots that it does not see never reach the result, NaNs in them
/// included; table entries of blocks wholly outside are not followed. A sequence of context_len 0 yields zeros.
/// One work list, one result, bit for bit.
struct DecodeAttentionParams {
  NumberType dtype;     // kF16 or kBF16
  const void* queries;  // [num_seqs, num_heads, head_size], 16-byte aligned; rows query_stride elements apart
  int64_t query_stride;
  void* out;  // [num_seqs, num_heads, head_size], 16-byte aligned; rows out_stride elements apart
  int64_t out_stride;
  PagedCache cache;             // head_size 64, 80, 96, 128 or 256; block_size 8, 16, 32 or 64
  const int32_t* block_tables;  // [.., table_stride]
  int64_t table_stride;
  const int32_t* table_rows;  // [num_seqs]: the row of block_tables of each sequence; null: row s for sequence s
  const float* alibi_slopes;  // [num_heads] or null; slope * (key position - query position) joins the score
  float scale;
  float soft_cap;            // scores become soft_cap * tanh(score / soft_cap), before ALiBi; 0: they stay
  const int32_t* work;       // device memory, what PlanDecode() wrote; 16-byte aligned
  DecodeWorkSize work_size;  // that it was written with
  int32_t stages;            // 2 to 4, of ChooseDecodeGrid()
  bool combine;              // launch the combining kernel; without splits in the list it finds nothing to do
  float* workspace;          // work_size.WorkspaceFloats(head_size), 16-byte aligned; null: nothing is split
  /// [num_heads] or null: of each head a score that joins the softmax, after scale and cap, and has no value
  const float* sinks = nullptr;
};

/// Launches work_size.num_ctas CTAs, and as many again to combine; the launches depend on nothing but the params, so
/// that a CUDA graph of them serves every work list of this size.
void DecodeAttention(const CudaStream& stream, const DecodeAttentionParams& params);

}  // namespace quire::kernels
