#pragma once

#include "kernels/stream.h"
#include "kernels/weight.h"

namespace quire::kernels {

/// out[t, :] = scale * table[token_ids[t] - first_id, :], zeros for ids outside the table: with a vocabulary in shards,
/// the sum over ranks is the lookup. Or, where it adds, out[t, :] += that.
struct EmbeddingParams {
  NumberType dtype;          // of out. CPU: kF32; CUDA: a float (IsFloat)
  Weight table;              // [num_rows, hidden]. CPU: any type; CUDA: dtype, contiguous, rows a multiple of 16 bytes
  const int32_t* token_ids;  // [num_tokens]
  void* out;                 // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t first_id = 0;  // of the table's first row
  float scale = 1;
  bool adds = false;
};
void Embedding(const CpuStream& stream, const EmbeddingParams& params);
void Embedding(const CudaStream& stream, const EmbeddingParams& params);

}  // namespace quire::kernels
