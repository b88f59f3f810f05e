#pragma once

#include <cstdint>
#include <set>

namespace quire::test {

/// Rows of the products that Gemm::Tune was asked to measure, each as often as it was.
extern std::multiset<int64_t> tuned_rows;

/// Whether there are products of FP8 with FP8.
extern bool has_fp8_products;

}  // namespace quire::test
