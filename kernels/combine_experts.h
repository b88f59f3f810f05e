#pragma once

#include <cstdint>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// out[t] = scale * (sum over j of weights[t, j] * rows[row_of_pair[t, j]] in the order of j, plus
/// sigmoid(shared_gate[t]) * shared[t]). A row_of_pair of -1 adds nothing. Sums are fp32.
struct CombineExpertsParams {
  NumberType dtype;            // CPU: kF32; CUDA: any IsFloat type; rows are then multiples of 16 bytes, aligned to 16
  const void* rows;            // [rows named by row_of_pair, columns]
  const int32_t* row_of_pair;  // [num_tokens, experts_per_token]
  const float* weights;        // [num_tokens, experts_per_token]
  const void* shared;          // [num_tokens, columns]; null: no shared expert
  const float* shared_gate;    // [num_tokens], shared_gate_stride floats apart; null: the factor of `shared` is 1
  int64_t shared_gate_stride;
  void* out;  // [num_tokens, columns]
  int64_t num_tokens;
  int64_t experts_per_token;
  int64_t columns;
  float scale = 1;
};
void CombineExperts(const CpuStream& stream, const CombineExpertsParams& params);
void CombineExperts(const CudaStream& stream, const CombineExpertsParams& params);

}  // namespace quire::kernels
