#pragma once

#include "comm/base/number_type.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The selective state space of Mamba-2 (Dao and Gu 2024); its literature calls queries C, keys B and values x. Each
/// value head has a state S [key_dim, value_dim], zero before the first token. For one token after another, with q and
/// k of the value head's key head:
///   step = softplus(a + bias);  decay = exp(-rate * step)
///   S = decay * S + k (step * v)^T;  out = S^T q + skip * v
/// HeadStateBytes gives the size of the state. Tokens are computed one after another and never in blocks, so a token's
/// result has the same bits however its sequence is cut into steps.
struct StateSpaceParams {
  NumberType dtype;     // CPU: kF32; CUDA: any IsFloat type
  const void* queries;  // [num_tokens, key_heads, key_dim]
  const void* keys;     // [num_tokens, key_heads, key_dim]
  const void* values;   // [num_tokens, value_heads, value_dim]
  int64_t row_stride;   // numbers between rows of queries, keys, values and steps
  void* steps;          // [num_tokens, value_heads]: a; the op may overwrite it with step
  const float* rate;    // [value_heads], at least 0
  const float* bias;    // [value_heads]
  const float* skip;    // [value_heads]
  void* out;            // [num_tokens, value_heads, value_dim], contiguous
  int64_t value_heads;
  int64_t heads_per_key;  // number of neighbouring value heads per key head
  int64_t first_head;     // index of value head 0 among the value heads of key head 0
  int64_t key_dim;        // CUDA: at most kMaxStateKeyDim
  int64_t value_dim;
  StateView state;

  int64_t key_head(int64_t value_head) const { return (first_head + value_head) / heads_per_key; }
};
void StateSpace(const CpuStream& stream, const StateSpaceParams& params);
void StateSpace(const CudaStream& stream, const StateSpaceParams& params);

}  // namespace quire::kernels
