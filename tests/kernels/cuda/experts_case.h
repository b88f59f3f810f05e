#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// A product of rows grouped by expert. Only experts with an even index get rows.
struct ExpertsShape {
  int64_t experts, per_token, tokens, n, k;
  bool gathers, biased;
  uint64_t seed = 0;  // seed of all random numbers
};

/// The results [rows, n] of the kernel, and those in fp64.
struct ExpertsProduct {
  std::vector<float> got;
  std::vector<double> want;
};

/// Multiplies random rows. `weight` and `quantized` are as in CudaExpertMatmulParams. number(expert, row, column) must
/// return a number of the weight.
ExpertsProduct MultiplyExperts(NumberType dtype, const ExpertsShape& shape, const void* weight,
                               std::optional<NumberType> quantized,
                               const std::function<double(int64_t, int64_t, int64_t)>& number);

/// Describes the error of a product; empty if there is none. The weights of experts without rows are NaN.
std::string WrongInExperts(NumberType dtype, const ExpertsShape& shape);
/// Describes the error of a product with quantised weights; empty if there is none.
std::string WrongInQuantizedExperts(NumberType dtype, NumberType type, const ExpertsShape& shape);

}  // namespace quire::kernels
