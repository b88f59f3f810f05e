#pragma once

#include <algorithm>
#include <vector>

namespace quire {

/// Returns the p-quantile of n values (0 <= p <= 1): sorts the values and returns the one whose index is p * (n - 1),
/// rounded to the nearest integer. Returns 0 when there are no values.
inline double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace quire
