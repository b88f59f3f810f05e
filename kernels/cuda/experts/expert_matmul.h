#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// The product of kernels/expert_matmul.h with plain weights or with such as stay quantised on the device, and so with
/// params of its own:
/// y = x * weight^T + bias, where rows of y are grouped by expert and each is multiplied with its expert's weight
/// (GroupByExpertParams). Weights of an expert without rows are not read. Sums are fp32. A row of y depends on its row
/// of x alone, bit for bit. x and rows of weights are 16-byte aligned.
struct CudaExpertMatmulParams {
  NumberType dtype;
  const void* x;               // rows of k numbers, contiguous
  const int32_t* pair_of_row;  // row r multiplies row pair_of_row[r] / pairs_per_x_row of x; null: row r
  int64_t pairs_per_x_row;
  const int32_t* start;  // [num_experts + 1]: expert e has rows start[e] to start[e + 1] - 1 of y
  const void* weight;    // [num_experts, n, k]
  const void* bias;      // [num_experts, n], or null
  void* y;               // [num_rows, n]
  int64_t num_rows;      // at least start[num_experts]; chooses the kernel, together with num_experts
  int64_t num_experts;   // without any, nothing happens
  int64_t n, k;          // k: a multiple of 8
  std::optional<NumberType> quantized = {};  // what the weights are, if they are not of the dtype
};
void ExpertMatmul(const CudaStream& stream, const CudaExpertMatmulParams& params);

}  // namespace quire::kernels
