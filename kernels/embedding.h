#pragma once

#include "kernels/stream.h"
#include "kernels/weight.h"

namespace quire::kernels {

/// out[t, :] = scale * table[token_ids[t] - first_id, :]; an id outside the table gives zeros. If the vocabulary is
/// sharded, the sum over the ranks is the full lookup. With `adds`, the scaled row is added to out[t, :] instead.
struct EmbeddingParams {
  NumberType dtype;          // type of `out`. CPU: kF32; CUDA: any IsFloat type
  Weight table;              // [num_rows, hidden]. CPU: any type; CUDA: dtype, contiguous, rows a multiple of 16 bytes
  const int32_t* token_ids;  // [num_tokens]
  void* out;                 // [num_tokens, hidden]
  int64_t num_tokens;
  int64_t first_id = 0;  // token id of the table's first row
  float scale = 1;
  bool adds = false;
};
void Embedding(const CpuStream& stream, const EmbeddingParams& params);
void Embedding(const CudaStream& stream, const EmbeddingParams& params);

}  // namespace quire::kernels
