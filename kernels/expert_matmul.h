#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace quire::kernels {

/// y = x * weight^T + bias for rows of y that are grouped by expert (GroupByExpertParams); each row uses its expert's
/// weights. Does not read the weights of experts without rows. A row has the bits that Matmul gives with the expert's
/// weights. CPU only: weights are packed on the CPU and plain on CUDA (cuda/experts/expert_matmul.h).
struct ExpertMatmulParams {
  const float* x;  // rows x_stride floats apart
  int64_t x_stride;
  const int32_t* pair_of_row;  // row r reads row pair_of_row[r] / pairs_per_x_row of x; null: row r
  int64_t pairs_per_x_row;
  const int32_t* start;         // [num_experts + 1]: expert e has rows [start[e], start[e + 1]) of y
  const PackedWeight* weights;  // [num_experts, num_weights], all with the same cols
  int64_t num_experts;          // number of experts, at least 1
  int64_t num_weights;
  const float* bias;  // [num_experts, rows of an expert's weights]; null: no bias
  float* y;           // [start[num_experts], rows of an expert's weights]
  Activations activations = Activations::kInt16;
};
void ExpertMatmul(const CpuStream& stream, const ExpertMatmulParams& params);

}  // namespace quire::kernels
