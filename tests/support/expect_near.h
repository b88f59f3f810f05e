#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace quire::test {

/// Expects |actual - expected| <= tolerance * max(1, |expected|) for all elements. A failure names the worst element.
inline void ExpectNear(std::span<const float> actual, std::span<const double> expected, double tolerance,
                       const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  size_t worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual[i])) << what << ": element " << i << " is " << actual[i];
    const double error = std::abs(actual[i] - expected[i]) / std::max(1.0, std::abs(expected[i]));
    if (error > worst_error) worst_error = error, worst = i;
  }
  EXPECT_LE(worst_error, tolerance) << what << ": worst at " << worst << ", got " << actual[worst] << ", expected "
                                    << expected[worst];
}

/// Describes the first element for which |actual - expected| is NaN or above tolerance * max(1, |expected|). Returns an
/// empty text if there is none.
inline std::string FirstFar(std::span<const float> actual, std::span<const double> expected, double tolerance) {
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i]))) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(actual[i]) + " instead of " +
           std::to_string(expected[i]);
  }
  return "";
}

}  // namespace quire::test
