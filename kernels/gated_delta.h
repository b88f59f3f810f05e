#pragma once

#include "comm/base/number_type.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The gated delta rule (Yang, Kautz and Hatamizadeh 2024). Each value head has a state S [key_dim, value_dim] that is
/// zero before the first token. Token by token, with q and k of the key head that the value head belongs to,
///   q' = q / sqrt(|q|^2 + 1e-6) / sqrt(key_dim);  k' = k / sqrt(|k|^2 + 1e-6)
///   decay = exp(-rate * softplus(a + bias));  beta = 1 / (1 + exp(-b))
///   d = beta * (v - decay * S^T k');  S = decay * S + k' d^T;  out = S^T q'
/// Neighbouring value heads, value_heads / key_heads of them, share a key head. The state is
/// HeadStateBytes. The recurrence is computed as it stands here, one token after another, never in
/// blocks of tokens: a token's result has the same bits however its sequence was cut into steps.
struct GatedDeltaParams {
  NumberType dtype;     // CPU: kF32; CUDA: a float (IsFloat)
  void* queries;        // [num_tokens, key_heads, key_dim]; holds q' afterwards, or what it held
  void* keys;           // likewise
  const void* values;   // [num_tokens, value_heads, value_dim]
  int64_t row_stride;   // numbers from row to row of these three
  void* betas;          // [num_tokens, value_heads]: b; holds beta afterwards, or what it held
  void* decays;         // likewise: a, and decay
  int64_t gate_stride;  // numbers from row to row of these two
  const float* rate;    // [value_heads], not negative
  const float* bias;    // [value_heads]
  void* out;            // [num_tokens, value_heads, value_dim] without gaps
  int64_t key_heads;
  int64_t value_heads;  // a multiple of key_heads
  int64_t key_dim;      // CUDA: at most kMaxStateKeyDim
  int64_t value_dim;
  StateView state;
};
void GatedDelta(const CpuStream& stream, const GatedDeltaParams& params);
void GatedDelta(const CudaStream& stream, const GatedDeltaParams& params);

}  // namespace quire::kernels
