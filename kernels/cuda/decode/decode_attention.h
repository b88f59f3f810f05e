#pragma once

#include "kernels/cuda/decode/decode_attention_plan.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Attention of one new token per sequence over its paged keys and values, on tensor cores. The cache must already
/// contain the new token's key and value. The new token has position context_len - 1, and sees the positions that were
/// given to PlanDecode(): all up to its own, or the last `window`. Invisible slots never influence the result, even if
/// they contain NaN. Table entries of blocks without a visible token are not read. A sequence with context_len 0 gives
/// zeros. Equal work lists give equal bits.
struct DecodeAttentionParams {
  NumberType dtype;     // kF16 or kBF16
  const void* queries;  // [num_seqs, num_heads, head_size], 16-byte aligned; rows query_stride elements apart
  int64_t query_stride;
  void* out;  // [num_seqs, num_heads, head_size], 16-byte aligned; rows out_stride elements apart
  int64_t out_stride;
  PagedCache cache;             // head_size 64, 80, 96, 128 or 256; block_size 8, 16, 32 or 64
  const int32_t* block_tables;  // [.., table_stride] block ids
  int64_t table_stride;
  const int32_t* table_rows;  // [num_seqs]: each sequence's row of block_tables; null: row s for sequence s
  const float* alibi_slopes;  // [num_heads] or null; slope * (key position - query position) is added to the score
  float scale;
  float soft_cap;            // scores become soft_cap * tanh(score / soft_cap), before ALiBi; 0: no cap
  const int32_t* work;       // device memory with PlanDecode()'s work list; 16-byte aligned
  DecodeWorkSize work_size;  // the size given to PlanDecode()
  int32_t stages;            // 2 to 4, from ChooseDecodeGrid()
  bool combine;              // launch the combining kernel; it does nothing if the list has no splits
  float* workspace;          // work_size.WorkspaceFloats(head_size), 16-byte aligned; null: no splits
  /// [num_heads], or null: for each head an attention sink, a score that joins the softmax after scale and cap but has
  /// no value.
  const float* sinks = nullptr;
};

/// Launches work_size.num_ctas CTAs and, if `combine` is set, as many again to combine splits. The launches depend only
/// on the params, so a CUDA graph of them serves every work list of this size.
void DecodeAttention(const CudaStream& stream, const DecodeAttentionParams& params);

}  // namespace quire::kernels
