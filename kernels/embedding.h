#pragma once

#include "kernels/stream.h"
#include "kernels/weight.h"

namespace quire::kernels {

/// out[t, :] = scale * table[token_ids[t], :]; or, where it adds, out[t, :] += that.
struct EmbeddingParams {
  Weight table;              // [vocab_size, hidden]
  const int32_t* token_ids;  // [num_tokens], each in [0, vocab_size)
  float* out;                // [num_tokens, hidden]
  int64_t num_tokens;
  float scale = 1;
  bool adds = false;
};
void Embedding(const CpuStream& stream, const EmbeddingParams& params);

}  // namespace quire::kernels
