#include "kernels/cuda/experts_case.h"

#include "kernels/cuda/experts/expert_matmul.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "kernels/route_experts.h"
#include "simt/device_buffer.h"
#include "tests/kernels/numbers.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {

namespace {

using simt::DeviceBuffer;

/// Returns the weights of all experts, one after another.
DeviceBuffer<std::byte> WeightsOf(NumberType type, const ExpertsShape& s) {
  const QuantizedParts parts = PartsOf(type, s.n, s.k);
  const int64_t bytes = parts.sum(), ints = parts.ints + parts.highs;
  DeviceBuffer<std::byte> weights(s.experts * bytes);
  for (int64_t e = 0; e < s.experts; ++e) {
    FillQuantized(type, s.n, s.k, s.seed * 1000 + static_cast<uint64_t>(e), weights.data() + e * bytes);
    for (int64_t i = ints; e % 2 == 1 && i < bytes; ++i) weights[e * bytes + i] = std::byte{0xff};  // NaN as scales
  }
  simt::MarkWritten(weights.data());
  return weights;
}

}  // namespace

ExpertsProduct MultiplyExperts(NumberType dtype, const ExpertsShape& s, const void* weight,
                               std::optional<NumberType> quantized,
                               const std::function<double(int64_t, int64_t, int64_t)>& number) {
  test::Random random(s.seed * 100'000 + static_cast<uint64_t>(s.n + s.k));
  const int64_t pairs = s.tokens * s.per_token;
  std::vector<int32_t> of_pair;
  for (int64_t i = 0; i < pairs; ++i) of_pair.push_back(static_cast<int32_t>(random.Below((s.experts + 1) / 2) * 2));
  const DeviceBuffer<int32_t> experts(of_pair), start(s.experts + 1), pair_of_row(pairs), row_of_pair(pairs);
  GroupByExpert(CudaStream{}, {experts.data(), pairs, s.experts, start.data(), pair_of_row.data(), row_of_pair.data()});
  const Numbers x = Numbers::Of(dtype, (s.gathers ? s.tokens : pairs) * s.k, random, 1);
  const Numbers bias = Numbers::Of(dtype, s.experts * s.n, random, 1);
  const Numbers y(dtype, pairs * s.n);
  ExpertMatmul(CudaStream{}, {.dtype = dtype,
                              .x = x.data(),
                              .pair_of_row = s.gathers ? pair_of_row.data() : nullptr,
                              .pairs_per_x_row = s.per_token,
                              .start = start.data(),
                              .weight = weight,
                              .bias = s.biased ? bias.data() : nullptr,
                              .y = y.data(),
                              .num_rows = pairs,
                              .num_experts = s.experts,
                              .n = s.n,
                              .k = s.k,
                              .quantized = quantized});
  ExpertsProduct product{y.Floats(), {}};
  for (int64_t r = 0; r < pairs; ++r) {
    const int64_t pair = pair_of_row[r], expert = of_pair[static_cast<size_t>(pair)];
    const int64_t from = (s.gathers ? pair / s.per_token : r) * s.k;
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = s.biased ? bias[expert * s.n + j] : 0;
      for (int64_t c = 0; c < s.k; ++c) sum += x[from + c] * number(expert, j, c);
      product.want.push_back(sum);
    }
  }
  return product;
}

std::string WrongInExperts(NumberType dtype, const ExpertsShape& s) {
  test::Random random(s.seed * 100'000 + static_cast<uint64_t>(s.n * s.k));
  const Numbers weight = Numbers::Of(dtype, s.experts * s.n * s.k, random, 1);
  for (int64_t e = 1; e < s.experts; e += 2) {
    for (int64_t i = 0; i < s.n * s.k; ++i)
      reference::WriteNumber(weight.data(), dtype, e * s.n * s.k + i, __builtin_nan(""));
  }
  const auto [got, want] = MultiplyExperts(
      dtype, s, weight.data(), std::nullopt,
      [&](int64_t expert, int64_t row, int64_t column) { return weight[(expert * s.n + row) * s.k + column]; });
  const double unit = dtype == NumberType::kF32 ? 0 : dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8;
  const std::string far = test::FirstFar(got, want, unit + 1.4e-5);
  return far.empty() ? "" : "n " + std::to_string(s.n) + ", k " + std::to_string(s.k) + ": " + far;
}

std::string WrongInQuantizedExperts(NumberType dtype, NumberType type, const ExpertsShape& s) {
  const DeviceBuffer<std::byte> weights = WeightsOf(type, s);
  const auto number = [&](int64_t expert, int64_t row, int64_t column) {
    const QuantizedMatrix of_expert{type, weights.data() + expert * QuantizedBytes(type, s.n, s.k), s.n, s.k};
    return QuantizedNumber(of_expert, dtype, row, column);
  };
  const auto [got, want] = MultiplyExperts(dtype, s, weights.data(), type, number);
  const std::string far = test::FirstFar(got, want, (dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8) + 2e-5);
  return far.empty() ? "" : std::string(LayoutOf(type).name) + ", k " + std::to_string(s.k) + ": " + far;
}

}  // namespace quire::kernels
