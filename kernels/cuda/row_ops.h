#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/stream.h"

// Ops whose rows do not know of each other. Rows are contiguous, 16-byte aligned and a multiple of 16 bytes long.
namespace quire::kernels {

/// residual += delta (when delta is given), then out = residual / rms(residual) * weight, row by row. Sums are fp32;
/// the norm is that of the residual as stored.
struct CudaRmsNormParams {
  DType dtype;
  void* residual;      // [num_tokens, hidden], read; also written when delta is given
  const void* delta;   // [num_tokens, hidden] or null
  const void* weight;  // [hidden]
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the mean of squares
};
void RmsNorm(const CudaStream& stream, const CudaRmsNormParams& params);

/// out[t, i] = silu(gate of i) * up of i, with silu(x) = x / (1 + exp(-x)).
struct CudaGateMulParams {
  DType dtype;
  const void* gate_up;  // [num_tokens, 2 * columns]: gates, then ups
  void* out;            // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
  bool interleaved;  // instead: 8 gates, their 8 ups, and so on (skinny_gemm.h); columns is a multiple of 8
};
void GateMul(const CudaStream& stream, const CudaGateMulParams& params);

/// out[t, :] = table[token_ids[t] - first_id, :], or zeros for ids outside the table: with a vocabulary in shards, the
/// sum over ranks is the lookup.
struct CudaEmbeddingParams {
  DType dtype;
  const void* table;         // [num_rows, hidden]: the ids first_id .. first_id + num_rows - 1
  const int32_t* token_ids;  // [num_tokens]
  void* out;                 // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  int64_t first_id;
  int64_t num_rows;
};
void Embedding(const CudaStream& stream, const CudaEmbeddingParams& params);

}  // namespace quire::kernels
