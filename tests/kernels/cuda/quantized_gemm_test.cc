#include "kernels/cuda/products/quantized_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/products/quantize_rows.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "simt/expect_error.h"
#include "tests/kernels/numbers.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

constexpr NumberType kDTypes[] = {NumberType::kF16, NumberType::kBF16};
constexpr NumberType kWeightTypes[] = {NumberType::kQ4_1,     NumberType::kQ8_0, NumberType::kMxFp4,
                                       NumberType::kQ6_K,     NumberType::kQ5_K, NumberType::kFp8E4M3,
                                       NumberType::kFp8Groups};

void ExpectQuantizedEqualsReference(const QuantizedShape& shape, uint64_t seed) {
  const QuantizedCase c(shape, seed);
  simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.05 : 0.0});
  QuantizedGemm(CudaStream{}, c.Params());
  test::ExpectNear(c.Output(), c.Expected(), c.Tolerance(), c.Name());
  EXPECT_FALSE(c.WroteBetweenRows()) << c.Name();
}

TEST(QuantizedGemmTest, QuantizedGemm_EqualsReference_ForAllTypesAndBatches) {
  const int64_t widths[] = {1, 40, 97, 16, 64}, depths[] = {192, 32, 256, 448};
  uint64_t seed = 0;
  for (const NumberType dtype : kDTypes) {
    for (const NumberType type : kWeightTypes) {
      for (const int32_t m : {1, 2, 7, 8, 9, 16, 17, 33, 64}) {
        const size_t i = ++seed;
        ExpectQuantizedEqualsReference({dtype, type, m, widths[i % 5], depths[i % 4], i % 3 == 0 ? 0.25f : 1}, seed);
      }
    }
  }
}

TEST(QuantizedGemmTest, QuantizedGemm_EqualsReference_ForManyDepths) {
  // The depths have fewer chunks than warps, as many, or one more; end within a chunk; or take several rounds.
  uint64_t seed = 100;
  for (const NumberType type : kWeightTypes) {
    for (const int64_t k : {32, 64, 96, 128, 160, 480, 512, 544, 1024, 1056, 2336})
      ExpectQuantizedEqualsReference({NumberType::kBF16, type, 3, 19, k}, ++seed);
  }
}

TEST(QuantizedGemmTest, Rows_AreBitEqual_AloneAndAmongOthers) {
  for (const NumberType type : kWeightTypes) {
    const QuantizedCase many({NumberType::kF16, type, 64, 24, 672}, 200);
    QuantizedGemm(CudaStream{}, many.Params());
    const std::vector<float> all = many.Output();
    for (const int32_t m : {1, 9, 20}) {
      QuantizedCase few({NumberType::kF16, type, m, 24, 672}, 200);
      few.CopyRow(m - 1, many, 60);
      QuantizedGemmParams p = few.Params();
      p.weight.data = many.Params().weight.data;
      QuantizedGemm(CudaStream{}, p);
      const std::vector<float> out = few.Output();
      for (size_t j = 0; j < 24; ++j) EXPECT_EQ(out[static_cast<size_t>(m - 1) * 24 + j], all[60 * 24 + j]) << m;
    }
  }
}

TEST(QuantizedGemmTest, ExpandQuantized_GivesTheNumbersOfTheWeight) {
  for (const NumberType dtype : kDTypes) {
    for (const NumberType type : kWeightTypes) {
      const QuantizedCase c({dtype, type, 1, 37, 352}, 300);
      const simt::DeviceBuffer<uint16_t> rows(30 * 352);
      ExpandQuantized(CudaStream{}, {dtype, c.Params().weight, 5, 30, rows.data()});
      for (int64_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(reference::ReadNumber(rows.data(), dtype, i), c.Weight(5 + i / 352, i % 352))
            << c.Name() << ": " << i;
      }
    }
  }
}

TEST(QuantizedGemmTest, ExpandQuantized_GivesEveryNumberOfMxFp4) {
  // Block i of the 16 blocks has nibble i everywhere. The scales are 2^-8 to 2^7.
  for (const NumberType dtype : kDTypes) {
    const simt::DeviceBuffer<std::byte> weight(QuantizedBytes(NumberType::kMxFp4, 1, 512));
    for (int64_t i = 0; i < 256; ++i) weight[i] = static_cast<std::byte>(i / 16 * 17);
    for (int64_t b = 0; b < 16; ++b)
      reference::WriteNumber(weight.data() + 256, NumberType::kBF16, b, std::ldexp(1.0f, static_cast<int>(b) - 8));
    simt::MarkWritten(weight.data());
    const QuantizedMatrix matrix{NumberType::kMxFp4, weight.data(), 1, 512};
    const simt::DeviceBuffer<uint16_t> row(512);
    ExpandQuantized(CudaStream{}, {dtype, matrix, 0, 1, row.data()});
    for (int64_t i = 0; i < 512; ++i)
      ASSERT_EQ(reference::ReadNumber(row.data(), dtype, i), QuantizedNumber(matrix, dtype, 0, i)) << i;
  }
}

TEST(QuantizedGemmTest, ExpandQuantized_GivesEveryNumberOfE4M3) {
  for (const NumberType dtype : kDTypes) {
    const simt::DeviceBuffer<std::byte> weight(QuantizedBytes(NumberType::kFp8E4M3, 1, 256));
    for (int64_t i = 0; i < 256; ++i) weight[i] = static_cast<std::byte>(i % 128 == 127 ? 0 : i);
    reference::WriteNumber(weight.data() + 256, NumberType::kF32, 0, 0.75f);
    simt::MarkWritten(weight.data());
    const QuantizedMatrix matrix{NumberType::kFp8E4M3, weight.data(), 1, 256};
    const simt::DeviceBuffer<uint16_t> row(256);
    ExpandQuantized(CudaStream{}, {dtype, matrix, 0, 1, row.data()});
    for (int64_t i = 0; i < 256; ++i)
      ASSERT_EQ(reference::ReadNumber(row.data(), dtype, i), QuantizedNumber(matrix, dtype, 0, i)) << i;
  }
}

TEST(QuantizedGemmTest, QuantizedBytes_CountsIntegersAndScales) {
  EXPECT_EQ(QuantizedBytes(NumberType::kQ8_0, 3, 64), 3 * (64 + 2 * 2));
  EXPECT_EQ(QuantizedBytes(NumberType::kQ4_1, 3, 64), 3 * (32 + 2 * 4));
  EXPECT_EQ(QuantizedBytes(NumberType::kMxFp4, 3, 64), 3 * (32 + 2 * 2));
  EXPECT_EQ(QuantizedBytes(NumberType::kQ6_K, 3, 64), 3 * (32 + 16 + 2 * 4));
  EXPECT_EQ(QuantizedBytes(NumberType::kFp8E4M3, 3, 160), 3 * (160 + 4));
  EXPECT_EQ(QuantizedBytes(NumberType::kFp8Groups, 3, 160), 3 * (160 + 2 * 4));
  EXPECT_EQ(QuantizedBytes(NumberType::kQ5_K, 3, 64), 3 * (32 + 16 + 2 * 4));
}

TEST(QuantizeRowsTest, QuantizeRows_ScalesTheLargestOfEachRowTo448) {
  constexpr int64_t kM = 5, kK = 2080, kStride = kK + 8, kZeros = 3;
  test::Random random(8);
  for (const NumberType dtype : kDTypes) {
    const simt::DeviceBuffer<uint16_t> x(kM * kStride);
    const simt::DeviceBuffer<std::byte> out(kM * kK);
    const simt::DeviceBuffer<float> scales(kM);
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t row = i / kStride;
      const double number = row == kZeros ? 0 : std::ldexp(random.Signed(), static_cast<int>(row) * 3);
      reference::WriteNumber(x.data(), dtype, i, i % kStride < kK ? number : 1e4);
    }
    simt::MarkWritten(x.data());
    QuantizeRows(CudaStream{}, {dtype, x.data(), kStride, kM, kK, out.data(), scales.data()});
    for (int64_t row = 0; row < kM; ++row) {
      double largest = 0, largest_there = 0;
      const double scale = scales[row];
      for (int64_t i = 0; i < kK; ++i) {
        const double number = reference::ReadNumber(x.data(), dtype, row * kStride + i);
        const double there = reference::ReadNumber(out.data(), NumberType::kFp8E4M3, row * kK + i);
        largest = std::max(largest, std::abs(number));
        largest_there = std::max(largest_there, std::abs(there));
        ASSERT_NEAR(there * scale, number, std::abs(number) / 16 + scale * 0x1p-10 * 1.01) << row << ", " << i;
      }
      EXPECT_EQ(largest_there, row == kZeros ? 0 : 448);
      EXPECT_NEAR(scale, largest / 448, largest * 1e-6);
    }
  }
}

TEST(QuantizeRowsTest, QuantizeRows_GivesZeros_ForRowsOfTinyNumbers) {
  const simt::DeviceBuffer<uint16_t> x(32);
  const simt::DeviceBuffer<std::byte> out(32);
  const simt::DeviceBuffer<float> scales(1);
  for (int64_t i = 0; i < 32; ++i) reference::WriteNumber(x.data(), NumberType::kBF16, i, i == 3 ? 0x1p-126 : 0);
  simt::MarkWritten(x.data());
  QuantizeRows(CudaStream{}, {NumberType::kBF16, x.data(), 32, 1, 32, out.data(), scales.data()});
  for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(reference::ReadNumber(out.data(), NumberType::kFp8E4M3, i), 0) << i;
}

TEST(QuantizedGemmTest, Emulator_FindsAWeightWithTooFewRows) {
  for (const NumberType type : kWeightTypes) {
    const QuantizedCase c({NumberType::kBF16, type, 1, 16, 64}, 400);
    const simt::DeviceBuffer<std::byte> weight(QuantizedBytes(type, 15, 64));
    QuantizedGemmParams p = c.Params();
    p.weight.data = weight.data();
    simt::ExpectError([&] { QuantizedGemm(CudaStream{}, p); }, "global access out of bounds");
  }
}

}  // namespace
}  // namespace quire::kernels
