#pragma once

#include "comm/base/number_type.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The gated delta rule (Yang, Kautz and Hatamizadeh 2024). Each value head has a state S [key_dim, value_dim], zero
/// before the first token. For one token after another, with q and k of the value head's key head:
///   q' = q / sqrt(|q|^2 + 1e-6) / sqrt(key_dim);  k' = k / sqrt(|k|^2 + 1e-6)
///   decay = exp(-rate * softplus(a + bias));  beta = 1 / (1 + exp(-b))
///   d = beta * (v - decay * S^T k');  S = decay * S + k' d^T;  out = S^T q'
/// Each key head serves value_heads / key_heads neighbouring value heads. HeadStateBytes gives the size of the state.
/// Tokens are computed one after another and never in blocks, so a token's result has the same bits however its
/// sequence is cut into steps.
struct GatedDeltaParams {
  NumberType dtype;     // CPU: kF32; CUDA: any IsFloat type
  void* queries;        // [num_tokens, key_heads, key_dim]; the op may overwrite them with q'
  void* keys;           // [num_tokens, key_heads, key_dim]; the op may overwrite them with k'
  const void* values;   // [num_tokens, value_heads, value_dim]
  int64_t row_stride;   // numbers between rows of queries, keys and values
  void* betas;          // [num_tokens, value_heads]: b; the op may overwrite it with beta
  void* decays;         // [num_tokens, value_heads]: a; the op may overwrite it with decay
  int64_t gate_stride;  // numbers between rows of betas and decays
  const float* rate;    // [value_heads], at least 0
  const float* bias;    // [value_heads]
  void* out;            // [num_tokens, value_heads, value_dim], contiguous
  int64_t key_heads;
  int64_t value_heads;  // a multiple of key_heads
  int64_t key_dim;      // CUDA: at most kMaxStateKeyDim
  int64_t value_dim;
  StateView state;
};
void GatedDelta(const CpuStream& stream, const GatedDeltaParams& params);
void GatedDelta(const CudaStream& stream, const GatedDeltaParams& params);

}  // namespace quire::kernels
