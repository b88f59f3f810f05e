#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/embedding.h"
#include "kernels/reference/reference.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using test::Random;

struct Storage {
  std::vector<std::byte> bytes;
  Weight weight;
};

/// Random numbers in the storage of `type`; half scales stay small and finite.
Storage RandomWeight(WeightType type, int64_t rows, int64_t cols, Random& random) {
  Storage s;
  const int64_t row_bytes = RowBytes(type, cols);
  s.bytes.resize(static_cast<size_t>(rows * row_bytes));
  const WeightLayout layout = LayoutOf(type);
  for (size_t at = 0; at < s.bytes.size(); at += static_cast<size_t>(layout.block_bytes)) {
    for (int i = 0; i < layout.block_bytes; ++i) s.bytes[at + static_cast<size_t>(i)] = std::byte(random.Bits() & 255);
    const auto put16 = [&](size_t offset, uint16_t v) { std::memcpy(&s.bytes[at + offset], &v, 2); };
    const auto small_half = [&] { return static_cast<uint16_t>(0x2400 | (random.Bits() & 0x83ff)); };
    if (type == WeightType::kF32) {
      const float v = random.Signed();
      std::memcpy(&s.bytes[at], &v, 4);
    } else if (type == WeightType::kBF16) {
      put16(0, static_cast<uint16_t>(0x3e00 | (random.Bits() & 0x80ff)));
    } else {
      put16(0, small_half());
      if (type == WeightType::kQ4_1) put16(2, small_half());
    }
  }
  s.weight = {type, s.bytes.data(), rows, cols, row_bytes};
  return s;
}

std::vector<float> RunMatmul(const Weight& w, const std::vector<float>& x, int64_t m, int threads) {
  CpuStream stream(threads);
  std::vector<float> y(static_cast<size_t>(m * w.rows), -1.0f);
  Matmul(stream, {x.data(), w.cols, w, y.data(), w.rows, m});
  return y;
}

class MatmulTest : public testing::TestWithParam<WeightType> {};

TEST_P(MatmulTest, EqualsReferenceForOddShapes) {
  Random random(1);
  const bool quantised = LayoutOf(GetParam()).block_numbers > 1;
  for (const int64_t k : {int64_t{32}, int64_t{576}, int64_t{1056}, quantised ? int64_t{64} : int64_t{37}}) {
    for (const int64_t n : {1, 3, 23, 24, 25, 77}) {
      for (const int64_t m : {1, 2, 5, 13}) {
        const Storage w = RandomWeight(GetParam(), n, k, random);
        const auto x = random.Floats(m * k);
        const auto y = RunMatmul(w.weight, x, m, 2);
        const auto expected = reference::Matmul({x.begin(), x.end()}, reference::Expand(w.weight), m, n, k);
        test::ExpectNear(y, expected, 5e-5,
                         "m, n, k = " + std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k));
      }
    }
  }
}

TEST_P(MatmulTest, RowsAreBitEqualInAnyBatchAndForAnyThreadCount) {
  Random random(2);
  const int64_t m = 19, n = 65, k = 1120;
  const Storage w = RandomWeight(GetParam(), n, k, random);
  const auto x = random.Floats(m * k);
  const auto all = RunMatmul(w.weight, x, m, 1);
  EXPECT_EQ(all, RunMatmul(w.weight, x, m, 3));
  for (int64_t i = 0; i < m; ++i) {
    const auto one = RunMatmul(w.weight, {x.begin() + i * k, x.begin() + (i + 1) * k}, 1, 1);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + i * n)) << "row " << i;
  }
}

TEST_P(MatmulTest, EqualsTheExpandedWeightBitForBit) {
  Random random(3);
  const int64_t m = 3, n = 31, k = 96;
  const Storage w = RandomWeight(GetParam(), n, k, random);
  std::vector<float> expanded(static_cast<size_t>(n * k));
  for (int64_t row = 0; row < n; ++row) DecodeRow(w.weight, row, 0, k, expanded.data() + row * k);
  const auto exact = reference::Expand(w.weight);
  for (size_t i = 0; i < expanded.size(); ++i) ASSERT_EQ(expanded[i], static_cast<float>(exact[i])) << "number " << i;
  const Weight plain{WeightType::kF32, reinterpret_cast<const std::byte*>(expanded.data()), n, k, k * 4};
  const auto x = random.Floats(m * k);
  EXPECT_EQ(RunMatmul(w.weight, x, m, 1), RunMatmul(plain, x, m, 1));
}

TEST_P(MatmulTest, EmbeddingReadsRows) {
  Random random(4);
  const Storage w = RandomWeight(GetParam(), 7, 64, random);
  const std::vector<int32_t> ids = {6, 0, 3, 3};
  std::vector<float> out(4 * 64);
  Embedding(CpuStream(2), {w.weight, ids.data(), out.data(), 4});
  const auto table = reference::Expand(w.weight);
  for (size_t t = 0; t < ids.size(); ++t) {
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(out[t * 64 + i], static_cast<float>(table[static_cast<size_t>(ids[t]) * 64 + i]));
    }
  }
}

std::string TypeName(const testing::TestParamInfo<WeightType>& info) {
  return std::vector<std::string>{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"}[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(AllTypes, MatmulTest,
                         testing::Values(WeightType::kF32, WeightType::kF16, WeightType::kBF16, WeightType::kQ8_0,
                                         WeightType::kQ4_0, WeightType::kQ4_1),
                         TypeName);

TEST(MatmulEdgeTest, NoColumnsGiveZeros) {
  const Weight empty{WeightType::kF32, nullptr, 3, 0, 0};
  EXPECT_EQ(RunMatmul(empty, {}, 2, 1), std::vector<float>(6, 0.0f));
}

TEST(DecodeTest, HalvesIncludeSubnormalsAndInfinities) {
  const uint16_t halves[] = {0x0001, 0x03ff, 0x0400, 0x7bff, 0x8001, 0x7c00, 0xfc00, 0x3c00, 0, 0x8000, 0x1234, 0x3555};
  const Weight w{WeightType::kF16, reinterpret_cast<const std::byte*>(halves), 1, 12, 24};
  std::vector<float> out(12);
  DecodeRow(w, 0, 0, 12, out.data());
  EXPECT_EQ(out[0], 0x1p-24f);
  EXPECT_EQ(out[1], 1023 * 0x1p-24f);
  EXPECT_EQ(out[2], 0x1p-14f);
  EXPECT_EQ(out[3], 65504.0f);
  EXPECT_EQ(out[4], -0x1p-24f);
  EXPECT_EQ(out[5], std::numeric_limits<float>::infinity());
  EXPECT_EQ(out[6], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(out[7], 1.0f);
}

}  // namespace
}  // namespace quire::kernels
