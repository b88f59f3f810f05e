#pragma once

#include "comm/base/number_type.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The selective state space of Mamba-2 (Dao and Gu 2024), whose literature calls queries C, keys B and values x. Each
/// value head has a state S [key_dim, value_dim] that is zero before the first token. Token by token, with q and k of
/// the key head that the value head belongs to,
///   step = softplus(a + bias);  decay = exp(-rate * step)
///   S = decay * S + k (step * v)^T;  out = S^T q + skip * v
/// The state is HeadStateBytes. The recurrence is computed as it stands here, one token after another, never in blocks
/// of tokens: a token's result has the same bits however its sequence was cut into steps.
struct StateSpaceParams {
  NumberType dtype;     // CPU: kF32; CUDA: a float (IsFloat)
  const void* queries;  // [num_tokens, key_heads, key_dim]
  const void* keys;     // likewise
  const void* values;   // [num_tokens, value_heads, value_dim]
  int64_t row_stride;   // numbers from row to row of these three and of
  void* steps;          // [num_tokens, value_heads]: a; holds step afterwards, or what it held
  const float* rate;    // [value_heads], not negative
  const float* bias;    // [value_heads]
  const float* skip;    // [value_heads]
  void* out;            // [num_tokens, value_heads, value_dim] without gaps
  int64_t value_heads;
  int64_t heads_per_key;  // neighbouring value heads that share a key head
  int64_t first_head;     // of the value heads among those of key head 0
  int64_t key_dim;        // CUDA: at most kMaxStateKeyDim
  int64_t value_dim;
  StateView state;

  int64_t key_head(int64_t value_head) const { return (first_head + value_head) / heads_per_key; }
};
void StateSpace(const CpuStream& stream, const StateSpaceParams& params);
void StateSpace(const CudaStream& stream, const StateSpaceParams& params);

}  // namespace quire::kernels
