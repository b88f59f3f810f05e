#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "worker/cuda/bench/bench.h"

namespace quire::bench {

/// The largest allowed distance between two methods' rows, relative to the row's length. Rounding results and
/// probabilities to bf16 gives about 0.003; one token missing from a context of 4,096 gives 0.016.
inline constexpr double kRowTolerance = 0.01;

/// Zeroes the output, runs `queue`, and returns the output's bytes.
std::vector<std::byte> ResultOf(Device& device, const Output& output, const std::function<void()>& queue);

/// Returns the largest distance between a row of `result` and the same row of `expected`, relative to the expected
/// row's length. Infinite if a number is NaN or infinite, or if an expected row is zero and the result's is not. Rows
/// have `row` bf16 numbers.
double WorstRow(std::span<const std::byte> result, std::span<const std::byte> expected, int64_t row);

}  // namespace quire::bench
