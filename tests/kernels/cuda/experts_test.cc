// Tests products of rows that are grouped by expert, with plain weights and with weights that stay quantised.
#include <gtest/gtest.h>

#include "kernels/cuda/experts/expert_matmul.h"
#include "kernels/cuda/experts_case.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "kernels/route_experts.h"
#include "simt/device_buffer.h"
#include "tests/kernels/numbers.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using simt::DeviceBuffer;

constexpr NumberType kExpertTypes[] = {NumberType::kF32, NumberType::kF16, NumberType::kBF16};

TEST(CudaExpertMatmulTest, ExpertMatmul_EqualsReference_AndReadsChosenExpertsOnly) {
  const ExpertsShape shapes[] = {
      {4, 2, 1, 64, 64, true, false},    // one token: tiles of 8 rows
      {8, 2, 5, 80, 72, true, true},     // n and k are no multiples of the tile's sizes
      {3, 1, 9, 16, 8, false, false},    // less than a step
      {3, 2, 20, 96, 200, true, false},  // more than 8 rows for each expert: tiles of 32
      {2, 3, 40, 33, 136, false, true},  // several tiles of 32 rows for one expert
  };
  for (const NumberType dtype : kExpertTypes) {
    for (const ExpertsShape& shape : shapes) EXPECT_EQ(WrongInExperts(dtype, shape), "");
  }
}

constexpr NumberType kQuantized[] = {NumberType::kQ8_0, NumberType::kQ4_1,    NumberType::kMxFp4,    NumberType::kQ6_K,
                                     NumberType::kQ5_K, NumberType::kFp8E4M3, NumberType::kFp8Groups};

TEST(CudaQuantizedExpertsTest, ExpertMatmul_EqualsReference_AndReadsChosenExpertsOnly) {
  const ExpertsShape shapes[] = {
      {4, 2, 1, 64, 64, true, false},    // one token: tiles of 8 rows
      {8, 2, 5, 80, 96, true, true},     // n and k are no multiples of the tile's sizes
      {3, 1, 9, 16, 32, false, false},   // less than a chunk
      {3, 2, 20, 96, 224, true, false},  // more than 8 rows for each expert: 32 rows at a time
      {2, 3, 40, 48, 160, false, true},  // more than 32 rows for one expert
  };
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const NumberType type : kQuantized) {
      for (const ExpertsShape& shape : shapes) EXPECT_EQ(WrongInQuantizedExperts(dtype, type, shape), "");
    }
  }
}

TEST(CudaQuantizedExpertsTest, Rows_AreBitEqual_AloneAndAmongOthers) {
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

// Tokens must not depend on the other sequences of a batch.
TEST(CudaExpertMatmulTest, Rows_AreBitEqual_AloneAndAmongOthers) {
  for (const NumberType dtype : kExpertTypes) {
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
