// Tests how rows of files are written as weights that stay quantised on the device.
#include "worker/cuda/weights/quantized_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "comm/model/formats/scaled_matrix.h"
#include "kernels/cuda/products/quantized_gemm.h"
#include "tests/kernels/numbers.h"
#include "tests/support/random.h"
#include "worker/model/stored_rows.h"

namespace quire {
namespace {

using kernels::reference::ReadNumber;
using kernels::reference::WriteNumber;

using enum NumberType;
constexpr double kE2M1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/// Makes blocks of `type` with random integers and finite scales.
std::vector<std::byte> RandomBlocks(NumberType type, int64_t numbers, test::Random& random) {
  const NumberLayout& layout = LayoutOf(type);
  std::vector<std::byte> bytes(static_cast<size_t>(numbers / layout.block_numbers * layout.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(layout.block_bytes)) {
    if (type == NumberType::kMxFp4) {
      bytes[at] = static_cast<std::byte>(120 + random.Below(8));  // the exponent of the scale, a power of two
      continue;
    }
    if (type == kF16) {
      WriteNumber(&bytes[at], kF16, 0, random.Signed());
      continue;
    }
    if (type == NumberType::kQ6_K) {
      WriteNumber(&bytes[at + 208], kF16, 0, random.Signed() / 4096);
      continue;
    }
    WriteNumber(&bytes[at], kF16, 0, random.Signed() / 8);
    constexpr NumberType kWithMinimum[] = {NumberType::kQ4_1, NumberType::kQ4_K, NumberType::kQ5_1, NumberType::kQ5_K};
    if (std::ranges::count(kWithMinimum, type) > 0) WriteNumber(&bytes[at], kF16, 1, random.Signed());
  }
  return bytes;
}

/// Returns number i of a row in the device's layout.
double NumberOf(NumberType type, const QuantizedRow& row, int64_t i) {
  const std::byte *ints = row.ints, *scales = row.scales;
  if (type == NumberType::kQ8_0) return ReadNumber(scales, kF16, i / 32) * (std::to_integer<int>(ints[i]) - 128);
  const int nibble = std::to_integer<int>(ints[i / 2]) >> (i % 2 * 4) & 15;
  if (type == NumberType::kMxFp4)
    return ReadNumber(scales, NumberType::kBF16, i / 32) * kE2M1[nibble & 7] * (nibble < 8 ? 1 : -1);
  if (kernels::HasSixBits(type)) {
    const int number = nibble | (std::to_integer<int>(row.highs[i / 4]) >> (i % 4 * 2) & 3) << 4;
    if (type == NumberType::kQ6_K) return ReadNumber(scales, kF16, i / 16) * (number - 32);
    return ReadNumber(scales, kF16, i / 32 * 2) * number + ReadNumber(scales, kF16, i / 32 * 2 + 1);
  }
  return ReadNumber(scales, kF16, i / 32 * 2) * nibble + ReadNumber(scales, kF16, i / 32 * 2 + 1);
}

TEST(QuantizedRowsTest, WriteQuantizedRow_KeepsTheFilesNumbers_ForEveryForm) {
  // The tolerances follow from rounding. In Q4_K and Q5_K, products of scales are rounded to fp16, with a relative
  // error of up to 2^-11. The error of a number is that of up to 15 (Q5_K: 31) times such a product, plus that of a
  // minimum. Q6_K's numbers are at most 1 and are multiplied by one rounded product. Plain numbers below 1 are off by
  // half a step of 2 / 15 or 1 / 127, and by the step's own rounding to fp16.
  const std::tuple<NumberType, NumberType, double> forms[] = {{NumberType::kQ4_0, NumberType::kQ4_1, 1e-6},
                                                              {NumberType::kQ4_1, NumberType::kQ4_1, 1e-6},
                                                              {NumberType::kQ4_K, NumberType::kQ4_1, 0.05},
                                                              {NumberType::kQ8_0, NumberType::kQ8_0, 1e-6},
                                                              {NumberType::kQ5_0, NumberType::kQ8_0, 1e-6},
                                                              {NumberType::kMxFp4, NumberType::kMxFp4, 0},
                                                              {NumberType::kQ5_1, NumberType::kQ5_K, 1e-6},
                                                              {NumberType::kQ5_K, NumberType::kQ5_K, 0.08},
                                                              {NumberType::kQ6_K, NumberType::kQ6_K, 3e-4},
                                                              {kF16, NumberType::kQ8_0, 0.0045},
                                                              {kF16, NumberType::kQ4_1, 0.069}};
  test::Random random(5);
  for (const auto& [stored, type, tolerance] : forms) {
    constexpr int64_t kRows = 3, kCols = 512;
    const std::vector<std::byte> data = RandomBlocks(stored, kRows * kCols, random);
    const Tensor tensor{stored, {kRows, kCols}, data};
    for (const Range& cols : {Range{0, 512}, {32, 96}, {288, 512}}) {
      for (int64_t row = 0; row < kRows; ++row) {
        const kernels::QuantizedParts parts = kernels::PartsOf(type, 1, cols.size());
        std::vector<std::byte> bytes(static_cast<size_t>(parts.sum()));
        const QuantizedRow to{&bytes[0], &bytes[0] + parts.ints, &bytes[0] + parts.ints + parts.highs};
        WriteQuantizedRow(tensor, FormOf(tensor, "a test").type, row, cols, type, to);
        std::vector<float> want(kCols);
        DecodeRow(tensor, row, 0, kCols, want.data());
        for (int64_t i = 0; i < cols.size(); ++i) {
          ASSERT_NEAR(NumberOf(type, to, i), want[static_cast<size_t>(cols.begin + i)], tolerance)
              << LayoutOf(stored).name << ", row " << row << ", column " << cols.begin + i;
        }
      }
    }
  }
}

TEST(QuantizedRowsTest, WriteQuantizedRow_KeepsEveryScaleOfMxFp4_AndNaN) {
  for (const auto& [scale, want] : {std::pair{0, 0x1p-127}, {1, 0x1p-126}, {127, 1.0}, {254, 0x1p127}}) {
    std::vector<std::byte> block(17, std::byte{0x22});  // both numbers of the byte are 1
    block[0] = static_cast<std::byte>(scale);
    const Tensor tensor{NumberType::kMxFp4, {1, 32}, block};
    std::byte ints[16], scales[2];
    const QuantizedRow to{ints, nullptr, scales};
    WriteQuantizedRow(tensor, NumberType::kQ8_0, 0, {0, 32}, NumberType::kMxFp4, to);
    EXPECT_EQ(NumberOf(NumberType::kMxFp4, to, 5), want);
    block[0] = std::byte{255};
    WriteQuantizedRow(tensor, NumberType::kQ8_0, 0, {0, 32}, NumberType::kMxFp4, to);
    EXPECT_TRUE(std::isnan(NumberOf(NumberType::kMxFp4, to, 5)));
  }
}

TEST(QuantizedRowsTest, WriteQuantizedRow_KeepsFp8AndItsScales) {
  constexpr int64_t kRows = 3, kCols = 512;
  test::Random random(7);
  std::vector<std::byte> numbers(kRows * kCols);
  for (std::byte& number : numbers) number = static_cast<std::byte>(random.Below(127) + 128 * random.Below(2));
  std::vector<float> factors(kRows * 2);
  for (float& factor : factors) factor = static_cast<float>(random.Signed());
  const auto bytes = std::as_bytes(std::span(factors));
  // Tests two layouts: one scale for each row, and one scale for each 256 columns of a row.
  for (const auto& [type, group] : {std::pair{NumberType::kFp8E4M3, kCols}, {NumberType::kFp8Groups, int64_t{256}}}) {
    ScaledMatrix matrix{.rows = kRows, .cols = kCols, .fp8 = numbers.data(), .group = group};
    matrix.scales = {NumberType::kF32, bytes.data(), kCols / group, 1};
    Tensor tensor{NumberType::kFp8E4M3, {kRows, kCols}, numbers};
    tensor.scaled = std::make_shared<const ScaledMatrix>(matrix);
    for (const Range& cols : {Range{0, 512}, {128, 512}, {256, 416}}) {
      for (int64_t row = 0; row < kRows; ++row) {
        const kernels::QuantizedParts parts = kernels::PartsOf(type, 1, cols.size());
        std::vector<std::byte> to(static_cast<size_t>(parts.sum()));
        WriteQuantizedRow(tensor, NumberType::kF16, row, cols, type, {&to[0], &to[0], &to[0] + parts.ints});
        std::vector<float> want(kCols);
        DecodeRow(tensor, row, 0, kCols, want.data());
        for (int64_t i = 0; i < cols.size(); ++i) {
          const double scale = ReadNumber(&to[0] + parts.ints, NumberType::kF32,
                                          type == NumberType::kFp8E4M3 ? 0 : i / kernels::kFp8Group);
          ASSERT_EQ(static_cast<float>(scale * ReadNumber(to.data(), NumberType::kFp8E4M3, i)),
                    want[static_cast<size_t>(cols.begin + i)])
              << LayoutOf(type).name << group << ", row " << row << ", column " << i;
        }
      }
    }
  }
}

TEST(QuantizedRowsTest, WriteQuantizedRow_KeepsNanAndSaturatesInfinity_InFp8) {
  std::vector<float> row(32, 448);
  row[0] = NAN;
  row[1] = INFINITY;
  row[2] = -INFINITY;
  const Tensor tensor{NumberType::kF32, {1, 32}, std::as_bytes(std::span(row))};
  std::byte bytes[36];
  WriteQuantizedRow(tensor, NumberType::kF32, 0, {0, 32}, NumberType::kFp8E4M3, {bytes, bytes, bytes + 32});
  EXPECT_EQ(ReadNumber(bytes + 32, NumberType::kF32, 0), 1) << "the scale of the finite numbers";
  EXPECT_TRUE(std::isnan(ReadNumber(bytes, NumberType::kFp8E4M3, 0)));
  EXPECT_EQ(ReadNumber(bytes, NumberType::kFp8E4M3, 1), 448);
  EXPECT_EQ(ReadNumber(bytes, NumberType::kFp8E4M3, 2), -448);
  EXPECT_EQ(ReadNumber(bytes, NumberType::kFp8E4M3, 3), 448);
}

TEST(QuantizedRowsTest, WriteQuantizedRow_RoundsToTheNearestFp8) {
  // The largest FP8 number is 448. Ties go to the even number. Subnormal numbers are multiples of 2^-9.
  const std::pair<float, double> numbers[] = {{448, 448},
                                              {-448, -448},
                                              {0, 0},
                                              {1, 1},
                                              {17, 16},
                                              {19, 20},
                                              {-18, -18},
                                              {1.0625f, 1},
                                              {0x1p-6f, 0x1p-6},
                                              {0x1p-9f, 0x1p-9},
                                              {0x1p-10f, 0},
                                              {0x1.8p-9f, 0x1p-8},
                                              {0x1.cp-7f, 0x1.cp-7},
                                              {0x1.ep-7f, 0x1p-6},
                                              {247, 240},
                                              {249, 256},
                                              {431, 416},
                                              {433, 448}};
  std::vector<float> row;
  for (const auto& [number, rounded] : numbers) row.push_back(number);
  row.resize(32, 3);
  const Tensor tensor{NumberType::kF32, {1, 32}, std::as_bytes(std::span(row))};
  std::byte bytes[36];
  WriteQuantizedRow(tensor, NumberType::kF32, 0, {0, 32}, NumberType::kFp8E4M3, {bytes, bytes, bytes + 32});
  EXPECT_EQ(ReadNumber(bytes + 32, NumberType::kF32, 0), 1);
  for (size_t i = 0; i < std::size(numbers); ++i) {
    EXPECT_EQ(ReadNumber(bytes, NumberType::kFp8E4M3, static_cast<int64_t>(i)), numbers[i].second) << numbers[i].first;
  }
}

}  // namespace
}  // namespace quire
