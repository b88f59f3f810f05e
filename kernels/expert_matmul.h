#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace quire::kernels {

/// y = x * weight^T + bias, where rows of y are grouped by expert and each is multiplied with its expert's weights
/// (GroupByExpertParams). Weights of an expert without rows are not read. Numbers are those of Matmul, bit for bit.
struct ExpertMatmulParams {
  const float* x;  // rows x_stride floats apart
  int64_t x_stride;
  const int32_t* pair_of_row;  // row r multiplies row pair_of_row[r] / pairs_per_x_row of x; null: row r
  int64_t pairs_per_x_row;
  const int32_t* start;         // [num_experts + 1]: expert e has rows start[e] to start[e + 1] - 1 of y
  const PackedWeight* weights;  // [num_experts, num_weights], all of the same cols
  int64_t num_experts;
  int64_t num_weights;
  const float* bias;  // [num_experts, rows of an expert's weights]; or null
  float* y;           // [start[num_experts], rows of an expert's weights]
  Activations activations = Activations::kInt16;
};
void ExpertMatmul(const CpuStream& stream, const ExpertMatmulParams& params);

/// out[t] = sum over j of weights[t, j] * rows[row_of_pair[t, j]], in the order of j, and sigmoid(shared_gate[t]) *
/// shared[t].
struct CombineExpertsParams {
  const float* rows;           // [num_tokens * experts_per_token, columns]
  const int32_t* row_of_pair;  // [num_tokens, experts_per_token]
  const float* weights;        // [num_tokens, experts_per_token]
  const float* shared;         // [num_tokens, columns]; null: nothing
  const float* shared_gate;    // [num_tokens], shared_gate_stride floats apart; null: shared counts in full
  int64_t shared_gate_stride;
  float* out;  // [num_tokens, columns]
  int64_t num_tokens;
  int64_t experts_per_token;
  int64_t columns;
};
void CombineExperts(const CpuStream& stream, const CombineExpertsParams& params);

}  // namespace quire::kernels
