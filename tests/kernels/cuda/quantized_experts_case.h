#pragma once

#include <string>

#include "comm/base/number_type.h"

namespace quire::kernels {

/// A product of rows grouped by expert. Only experts with an even number get rows.
struct ExpertsShape {
  int64_t experts, per_token, tokens, n, k;
  bool gathers, biased;
};

/// What is wrong with a product of experts' quantised weights, where those of experts without rows are no numbers;
/// empty if nothing is.
std::string WrongInQuantizedExperts(NumberType dtype, NumberType type, const ExpertsShape& shape);

}  // namespace quire::kernels
