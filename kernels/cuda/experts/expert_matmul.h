#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The product of kernels/expert_matmul.h, with weights that are plain or quantised on the device: y = x * weight^T +
/// bias, where the rows of y are grouped by expert (GroupByExpertParams) and each row uses its expert's weight. Weights
/// of experts without rows are not read. Sums are fp32. The bits of a row of y depend only on its row of x. x and the
/// rows of weights must be 16-byte aligned.
struct CudaExpertMatmulParams {
  NumberType dtype;
  const void* x;               // rows of k numbers, contiguous
  const int32_t* pair_of_row;  // row r reads row pair_of_row[r] / pairs_per_x_row of x; null: row r
  int64_t pairs_per_x_row;
  const int32_t* start;  // [num_experts + 1]: expert e has rows [start[e], start[e + 1]) of y
  const void* weight;    // [num_experts, n, k]
  const void* bias;      // [num_experts, n]; null: no bias
  void* y;               // [num_rows, n]
  int64_t num_rows;      // at least start[num_experts]; selects the kernel, together with num_experts
  int64_t num_experts;   // 0: nothing happens
  int64_t n, k;          // k: a multiple of 8
  std::optional<NumberType> quantized = {};  // type of quantised weights; nullopt: weights of the dtype
};
void ExpertMatmul(const CudaStream& stream, const CudaExpertMatmulParams& params);

}  // namespace quire::kernels
