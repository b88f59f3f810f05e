#pragma once

#include <cstdint>
#include <set>

namespace quire::test {

/// The row counts of the products that Gemm::Tune was asked to measure, one entry for each call.
extern std::multiset<int64_t> tuned_rows;

/// True if the emulated library multiplies FP8 by FP8.
extern bool has_fp8_products;

}  // namespace quire::test
