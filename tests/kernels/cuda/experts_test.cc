// Products of rows grouped by expert, with plain weights and with such as stay quantised.
#include <gtest/gtest.h>

#include "kernels/cuda/experts/expert_matmul.h"
#include "kernels/cuda/quantized_experts_case.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "kernels/route_experts.h"
#include "simt/device_buffer.h"
#include "tests/kernels/numbers.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using reference::WriteNumber;
using simt::DeviceBuffer;

constexpr NumberType kTypes[] = {NumberType::kF32, NumberType::kF16, NumberType::kBF16};

double Tolerance(NumberType type) {
  return type == NumberType::kF32 ? 2e-6 : type == NumberType::kF16 ? 0x1p-11 + 4e-6 : 0x1p-8 + 4e-6;
}

/// Each row of a product whose unused experts are NaN, the last one's too.
void ExpectProduct(NumberType dtype, const ExpertsShape& s) {
  test::Random random(static_cast<uint64_t>(s.n + s.k));
  const int64_t pairs = s.tokens * s.per_token;
  std::vector<int32_t> of_pair;  // even experts only
  for (int64_t i = 0; i < pairs; ++i) {
    of_pair.push_back(static_cast<int32_t>(random.Below((s.experts + 1) / 2) * 2));
  }
  const DeviceBuffer<int32_t> experts(of_pair), start(s.experts + 1), pair_of_row(pairs), row_of_pair(pairs);
  GroupByExpert(CudaStream{}, {experts.data(), pairs, s.experts, start.data(), pair_of_row.data(), row_of_pair.data()});
  const Numbers x = Numbers::Of(dtype, (s.gathers ? s.tokens : pairs) * s.k, random, 1);
  const Numbers weight = Numbers::Of(dtype, s.experts * s.n * s.k, random, 1);
  const Numbers bias = Numbers::Of(dtype, s.experts * s.n, random, 1);
  for (int64_t e = 1; e < s.experts; e += 2) {
    for (int64_t i = 0; i < s.n * s.k; ++i) WriteNumber(weight.data(), dtype, e * s.n * s.k + i, __builtin_nan(""));
  }
  const Numbers y(dtype, pairs * s.n);
  ExpertMatmul(CudaStream{}, {.dtype = dtype,
                              .x = x.data(),
                              .pair_of_row = s.gathers ? pair_of_row.data() : nullptr,
                              .pairs_per_x_row = s.per_token,
                              .start = start.data(),
                              .weight = weight.data(),
                              .bias = s.biased ? bias.data() : nullptr,
                              .y = y.data(),
                              .num_rows = pairs,
                              .num_experts = s.experts,
                              .n = s.n,
                              .k = s.k});
  std::vector<double> want;
  for (int64_t r = 0; r < pairs; ++r) {
    const int64_t pair = pair_of_row[r], expert = of_pair[static_cast<size_t>(pair)];
    const int64_t from = (s.gathers ? pair / s.per_token : r) * s.k;
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = s.biased ? bias[expert * s.n + j] : 0;
      for (int64_t c = 0; c < s.k; ++c) sum += x[from + c] * weight[(expert * s.n + j) * s.k + c];
      want.push_back(sum);
    }
  }
  test::ExpectNear(y.Floats(), want, Tolerance(dtype) + 1e-5,
                   "n " + std::to_string(s.n) + ", k " + std::to_string(s.k));
}

TEST(CudaExpertMatmulTest, EqualsReferenceAndReadsChosenExpertsOnly) {
  const ExpertsShape shapes[] = {
      {4, 2, 1, 64, 64, true, false},    // one token: tiles of 8 rows
      {8, 2, 5, 80, 72, true, true},     // neither the tile's rows nor K come out even
      {3, 1, 9, 16, 8, false, false},    // less than a step
      {3, 2, 20, 96, 200, true, false},  // more than 8 rows for each expert: tiles of 32
      {2, 3, 40, 33, 136, false, true},  // several tiles of 32 of one expert
  };
  for (const NumberType dtype : kTypes) {
    for (const ExpertsShape& shape : shapes) ExpectProduct(dtype, shape);
  }
}

constexpr NumberType kQuantized[] = {NumberType::kQ8_0, NumberType::kQ4_1, NumberType::kMxFp4};

TEST(CudaQuantizedExpertsTest, EqualReferenceAndReadChosenExpertsOnly) {
  const ExpertsShape shapes[] = {
      {4, 2, 1, 64, 64, true, false},    // one token: tiles of 8 rows
      {8, 2, 5, 80, 96, true, true},     // neither the tile's rows nor the chunks come out even
      {3, 1, 9, 16, 32, false, false},   // less than a chunk
      {3, 2, 20, 96, 224, true, false},  // more than 8 rows for each expert: 32 at a time
      {2, 3, 40, 48, 160, false, true},  // several times 32 of one expert
  };
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const NumberType type : kQuantized) {
      for (const ExpertsShape& shape : shapes) EXPECT_EQ(WrongInQuantizedExperts(dtype, type, shape), "");
    }
  }
}

TEST(CudaQuantizedExpertsTest, ARowDoesNotDependOnItsNeighbours) {
  constexpr NumberType kDtype = NumberType::kBF16;
  for (const NumberType type : kQuantized) {
    test::Random random(3);
    const int64_t rows = 140, n = 64, k = 352;
    const Numbers x = Numbers::Of(kDtype, rows * k, random, 1);
    const DeviceBuffer<std::byte> weight(QuantizedBytes(type, n, k));
    FillQuantized(type, n, k, 5, weight.data());
    simt::MarkWritten(weight.data());
    const Numbers together(kDtype, rows * n), alone(kDtype, n);
    const auto run = [&](const void* from, int32_t count, void* to) {
      const DeviceBuffer<int32_t> start(std::vector<int32_t>{0, count});
      ExpertMatmul(CudaStream{},
                   {kDtype, from, nullptr, 1, start.data(), weight.data(), nullptr, to, count, 1, n, k, type});
    };
    for (const int32_t count : {20, 140}) {
      run(x.data(), count, together.data());
      for (const int64_t row : {0, 13, count - 1}) {
        run(static_cast<std::byte*>(x.data()) + row * k * 2, 1, alone.data());
        for (int64_t j = 0; j < n; ++j) ASSERT_EQ(alone[j], together[row * n + j]) << "row " << row << ", column " << j;
      }
    }
  }
}

// What was decoded with others must be what is decoded alone.
TEST(CudaExpertMatmulTest, ARowDoesNotDependOnItsNeighbours) {
  for (const NumberType dtype : kTypes) {
    test::Random random(3);
    const int64_t rows = 70, n = 64, k = 328;
    const Numbers x = Numbers::Of(dtype, rows * k, random, 1), weight = Numbers::Of(dtype, n * k, random, 1);
    const Numbers together(dtype, rows * n), alone(dtype, n);
    const DeviceBuffer<int32_t> all(std::vector<int32_t>{0, static_cast<int32_t>(rows)}),
        one(std::vector<int32_t>{0, 1});
    const auto run = [&](const void* from, int64_t count, const int32_t* start, void* to) {
      ExpertMatmul(CudaStream{}, {dtype, from, nullptr, 1, start, weight.data(), nullptr, to, count, 1, n, k});
    };
    run(x.data(), rows, all.data(), together.data());
    for (const int64_t row : {0, 33, 69}) {
      run(static_cast<std::byte*>(x.data()) + row * k * ByteSize(dtype), 1, one.data(), alone.data());
      for (int64_t j = 0; j < n; ++j) ASSERT_EQ(alone[j], together[row * n + j]) << "row " << row << ", column " << j;
    }
  }
}

}  // namespace
}  // namespace quire::kernels
