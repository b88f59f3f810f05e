#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/stream.h"

// Ops whose rows do not know of each other. Rows are contiguous, 16-byte aligned and a multiple of 16 bytes long.
namespace quire::kernels {

/// residual += delta (when delta is given), then out = residual / rms(residual) * weight, row by row; or, where it
/// adds, out += that. Sums are fp32; the norm is that of the residual as stored.
struct CudaRmsNormParams {
  NumberType dtype;
  void* residual;      // [num_tokens, hidden], read; also written when delta is given
  const void* delta;   // [num_tokens, hidden] or null
  const void* weight;  // [hidden]
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the mean of squares
  bool adds = false;
};
void RmsNorm(const CudaStream& stream, const CudaRmsNormParams& params);

/// residual += delta (when delta is given), then out = (residual - mean) / sqrt(variance + epsilon) * weight + bias,
/// row by row. Sums are fp32; the norm is that of the residual as stored. Without a delta, out may be the residual.
struct CudaLayerNormParams {
  NumberType dtype;
  void* residual;      // [num_tokens, hidden], read; also written when delta is given
  const void* delta;   // [num_tokens, hidden] or null
  const void* weight;  // [hidden]
  const void* bias;    // [hidden] or null
  void* out;           // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  float epsilon;  // added to the variance
};
void LayerNorm(const CudaStream& stream, const CudaLayerNormParams& params);

/// rows[t, i] = activation(rows[t, i] + bias[i]), the sum in fp32.
struct CudaActivateParams {
  NumberType dtype;
  void* rows;        // [num_tokens, columns]
  const void* bias;  // [columns] or null
  int64_t num_tokens;
  int64_t columns;
  Activation activation;
};
void Activate(const CudaStream& stream, const CudaActivateParams& params);

/// to[t, i] += from[t, i], or from[i] where one row is for all.
struct CudaAddRowsParams {
  NumberType dtype;
  void* to;          // [num_tokens, columns]
  const void* from;  // [num_tokens, columns], or [columns]
  int64_t num_tokens;
  int64_t columns;
  bool one_for_all;
};
void AddRows(const CudaStream& stream, const CudaAddRowsParams& params);

/// out[t, i] = activation(gate of i) * up of i; kClampedSilu says itself what it makes of both.
struct CudaGateMulParams {
  NumberType dtype;
  const void* gate_up;  // [num_tokens, 2 * columns]: gates, then ups
  void* out;            // [num_tokens, columns]
  int64_t num_tokens;
  int64_t columns;
  bool interleaved;  // instead: 8 gates, their 8 ups, and so on (skinny_gemm.h); columns is a multiple of 8
  Activation activation = Activation::kSilu;
  float limit = 0;  // of kClampedSilu
};
void GateMul(const CudaStream& stream, const CudaGateMulParams& params);

/// out[t, :] = table[token_ids[t] - first_id, :], or zeros for ids outside the table: with a vocabulary in shards, the
/// sum over ranks is the lookup. Numbers are multiplied by `scale`. Or, where it adds, out[t, :] += that.
struct CudaEmbeddingParams {
  NumberType dtype;
  const void* table;         // [num_rows, hidden]: the ids first_id .. first_id + num_rows - 1
  const int32_t* token_ids;  // [num_tokens]
  void* out;                 // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t hidden;
  int64_t first_id;
  int64_t num_rows;
  bool adds = false;
  float scale = 1;
};
void Embedding(const CudaStream& stream, const CudaEmbeddingParams& params);

}  // namespace quire::kernels
