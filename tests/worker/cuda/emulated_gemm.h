#pragma once

#include <cstdint>
#include <set>

namespace quire::test {

/// Row counts of the products that Gemm::Tune was asked to measure, one entry for each call
extern std::multiset<int64_t> tuned_rows;

/// Whether the emulated library has products of FP8 with FP8
extern bool has_fp8_products;

}  // namespace quire::test
