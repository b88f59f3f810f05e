#pragma once

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// Attention of one new token per sequence over its paged keys and values. The cache must already contain the new
/// token's key and value. The token has position context_len - 1 and sees the positions from max(0, context_len -
/// window) to context_len - 1. Invisible slots never influence the result, even if they contain NaN. Table entries of
/// blocks without a visible token are not read. A sequence with context_len 0 gives zeros.
struct PagedDecodeParams {
  NumberType dtype;
  const void* queries;  // [num_seqs, num_heads, head_size], rows query_stride elements apart
  int64_t query_stride;
  void* out;  // [num_seqs, num_heads, head_size], rows out_stride elements apart
  int64_t out_stride;
  PagedCache cache;
  const int32_t* block_tables;  // [.., table_stride] block ids
  int64_t table_stride;
  const int32_t* table_rows;   // [num_seqs]: each sequence's row of block_tables; null: row s for sequence s
  const int32_t* context_len;  // [num_seqs]
  const int32_t* kv_head_of;   // [num_heads]: the KV head of each query head
  const float* alibi_slopes;   // [num_heads] or null; slope * (key position - query position) is added to the score
  int32_t num_seqs;
  int32_t num_heads;
  int32_t max_context_len;  // >= every context_len
  float scale;
  float soft_cap;  // scores become soft_cap * tanh(score / soft_cap), before ALiBi; 0: no cap
  int32_t window;  // 0: no window
  // Memory for v2's partitions: DecodeWorkspaceFloats(). v1 does not use it.
  float* workspace;
  /// [num_heads], or null: for each head an attention sink, a score that joins the softmax after scale and cap but has
  /// no value.
  const float* sinks = nullptr;
};

/// Tokens per partition of v2.
inline constexpr int32_t kDecodePartition = 512;

/// Returns the most shared memory, in bytes, that v1 needs for contexts of this length: mainly their scores.
constexpr int64_t PagedDecodeV1SharedBytes(int64_t max_context_len, int64_t head_size, int64_t block_size) {
  return 4 * (max_context_len + 2 * block_size) + 20 * head_size + 128;
}

/// Launches one thread block per (head, sequence), over the whole context. The scores must fit into shared memory
/// (PagedDecodeV1SharedBytes): about 50,000 tokens on Hopper.
void PagedDecodeV1(const CudaStream& stream, const PagedDecodeParams& params);

/// Launches one thread block per (head, sequence, partition of 512 tokens), then a kernel that combines the partitions.
/// If every context fits into one partition, calls PagedDecodeV1 instead.
void PagedDecodeV2(const CudaStream& stream, const PagedDecodeParams& params);

/// True when v1 is faster by the rule of the paged-attention literature: no context is longer than 8,192 tokens, and
/// either one partition holds every context or there are more than 512 (head, sequence) pairs to fill the device.
constexpr bool PrefersV1(int64_t max_context_len, int64_t num_seqs, int64_t num_heads) {
  const int64_t partitions = (max_context_len + kDecodePartition - 1) / kDecodePartition;
  return max_context_len <= 8192 && (partitions <= 1 || num_seqs * num_heads > 512);
}

constexpr int64_t DecodeWorkspaceFloats(int64_t max_context_len, int64_t num_seqs, int64_t num_heads,
                                        int64_t head_size) {
  return num_seqs * num_heads * ((max_context_len + kDecodePartition - 1) / kDecodePartition) * (head_size + 2);
}

/// Calls the version that PrefersV1() selects. The results of the two versions differ in the last bits, so a result may
/// depend on the batch.
void PagedDecode(const CudaStream& stream, const PagedDecodeParams& params);

}  // namespace quire::kernels
