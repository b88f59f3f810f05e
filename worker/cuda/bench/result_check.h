#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "worker/cuda/bench/bench.h"

namespace quire::bench {

/// Two ways to compute the same rows may differ by so much of a row's length. Rounding results and probabilities to
/// bf16 makes about 0.003; a token that was left out of a context of 4,096, 0.016.
inline constexpr double kRowTolerance = 0.01;

/// What `queue` leaves in the output, which is zero before.
std::vector<std::byte> ResultOf(Device& device, const Output& output, const std::function<void()>& queue);

/// The largest distance between a row of `result` and that of `expected`, in lengths of the latter; infinite where a
/// number is none, or where an expected row is zero and the result is not. Rows of `row` bf16 numbers.
double WorstRow(std::span<const std::byte> result, std::span<const std::byte> expected, int64_t row);

}  // namespace quire::bench
