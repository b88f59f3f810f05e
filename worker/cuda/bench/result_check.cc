#include "worker/cuda/bench/result_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quire::bench {

namespace {

double NumberAt(std::span<const std::byte> numbers, int64_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, numbers.data() + 2 * index, 2);
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

}  // namespace

std::vector<std::byte> ResultOf(Device& device, const Output& output, const std::function<void()>& queue) {
  const DeviceMemory host = device.AllocateHost(output.bytes, "a result to check");
  device.SetZero(output.data, output.bytes);
  device.Synchronize();
  queue();
  device.Synchronize();
  device.CopyToHost(host.as<void>(), output.data, output.bytes);
  device.Synchronize();
  return {host.as(), host.as() + output.bytes};
}

double WorstRow(std::span<const std::byte> result, std::span<const std::byte> expected, int64_t row) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto rows = static_cast<int64_t>(expected.size()) / (2 * row);
  double worst = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double apart = 0, length = 0;
    for (int64_t i = r * row; i < (r + 1) * row; ++i) {
      const double got = NumberAt(result, i), want = NumberAt(expected, i);
      apart += (got - want) * (got - want), length += want * want;
    }
    if (!std::isfinite(apart) || !std::isfinite(length)) return kInfinite;
    if (apart > 0) worst = std::max(worst, length > 0 ? std::sqrt(apart / length) : kInfinite);
  }
  return worst;
}

}  // namespace quire::bench
