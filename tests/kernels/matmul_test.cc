#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/cpu/isa/table.h"
#include "kernels/embedding.h"
#include "tests/kernels/packed_case.h"
#include "tests/kernels/reference.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using test::OfIntegers;
using test::Pack;
using test::Random;
using test::RandomWeight;
using test::Storage;

/// Returns the products [m, rows of all weights].
std::vector<float> RunMatmul(const std::vector<Weight>& weights, const std::vector<float>& x, int64_t m, int threads,
                             Activations activations) {
  CpuStream stream(threads);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<PackedWeight> packed;
  int64_t rows = 0;
  for (const Weight& w : weights) {
    bytes.push_back(Pack(w));
    packed.push_back({w.type, bytes.back().data(), w.rows, w.cols});
    rows += w.rows;
  }
  std::vector<float> y(static_cast<size_t>(m * rows), -1.0f);
  Matmul(stream, {x.data(), weights[0].cols, packed.data(), static_cast<int64_t>(packed.size()), y.data(), rows, m,
                  activations});
  return y;
}

struct Case {
  std::string name;
  NumberType type;
  Activations activations = Activations::kInt16;
};

class MatmulTest : public testing::TestWithParam<Case> {
 protected:
  NumberType type() const { return GetParam().type; }
  static bool HasTiles() {
    const std::string isa = CpuIsaName();
    return isa == "avx512amx" || isa == "plaintiles";
  }
  bool quantised() const { return LayoutOf(type()).block_numbers > 1; }
  /// True if the kernel rounds x to 8 bits. Otherwise it rounds x to 16 bits, or not at all if the weights are not
  /// quantised.
  bool takes_bytes() const {
    return quantised() && GetParam().activations == Activations::kInt8 && ActiveTable().takes_int8(type());
  }
  int most() const { return GetParam().activations == Activations::kInt8 ? 127 : 32767; }

  std::vector<float> Run(const std::vector<Weight>& weights, const std::vector<float>& x, int64_t m, int threads) {
    return RunMatmul(weights, x, m, threads, GetParam().activations);
  }
  std::vector<float> Run(const Weight& w, const std::vector<float>& x, int64_t m, int threads) {
    return Run(std::vector{w}, x, m, threads);
  }
};

TEST_P(MatmulTest, Matmul_EqualsReference_ForOddShapes) {
  Random random(1);
  for (const int64_t k : {int64_t{32}, int64_t{576}, int64_t{1056}, quantised() ? int64_t{64} : int64_t{37}}) {
    for (const int64_t n : {1, 3, 23, 24, 25, 77}) {
      for (const int64_t m : {1, 2, 5, 13, 31}) {
        const Storage w = RandomWeight(type(), n, k, random);
        const auto x = quantised() ? OfIntegers(most(), m * k, random) : random.Floats(m * k);
        const auto y = Run(w.weight, x, m, 2);
        const auto expected = reference::Matmul({x.begin(), x.end()}, reference::Expand(w.weight), m, n, k);
        test::ExpectNear(y, expected,
                         takes_bytes()   ? 1e-4
                         : most() == 127 ? 2e-3
                                         : 5e-5,
                         "m, n, k = " + std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k));
      }
    }
  }
}

TEST_P(MatmulTest, Matmul_GivesBitEqualRows_InAnyBatchAndForAnyThreadCount) {
  Random random(2);
  const int64_t m = 131, n = 65, k = 1120;
  const Storage w = RandomWeight(type(), n, k, random);
  const auto x = random.Floats(m * k);
  const auto all = Run(w.weight, x, m, 1);
  EXPECT_EQ(all, Run(w.weight, x, m, 3));
  for (const int64_t batch : {1, 2, 7, 9, 30, 65}) {
    for (int64_t i = 0; i + batch <= m; i += batch) {
      const auto some = Run(w.weight, {x.begin() + i * k, x.begin() + (i + batch) * k}, batch, 1);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + i * n)) << batch << " rows from " << i;
    }
  }
}

TEST_P(MatmulTest, Matmul_GivesTheBitsOfExpandedWeights_WhenWeightsArePlain) {
  Random random(3);
  const int64_t m = 3, n = 31, k = 96;
  const Storage w = RandomWeight(type(), n, k, random);
  std::vector<float> expanded(static_cast<size_t>(n * k));
  for (int64_t row = 0; row < n; ++row) DecodeRow(w.weight, row, 0, k, expanded.data() + row * k);
  const auto exact = reference::Expand(w.weight);
  for (size_t i = 0; i < expanded.size(); ++i) ASSERT_EQ(expanded[i], static_cast<float>(exact[i])) << "number " << i;
  if (quantised()) return;  // quantised weights are multiplied as integers
  const Weight plain{NumberType::kF32, reinterpret_cast<const std::byte*>(expanded.data()), n, k, k * 4};
  const auto x = random.Floats(m * k);
  const auto y = Run(w.weight, x, m, 1), of_plain = Run(plain, x, m, 1);
  if (type() == NumberType::kBF16 && HasTiles()) {
    test::ExpectNear(y, std::vector<double>(of_plain.begin(), of_plain.end()), 1e-6, "sums of another order");
  } else {
    EXPECT_EQ(y, of_plain);
  }
}

TEST_P(MatmulTest, Matmul_WritesWeightsOfSeveralTypesIntoOneRow) {
  Random random(6);
  const int64_t m = 5, k = 64;
  const Storage first = RandomWeight(type(), 19, k, random), second = RandomWeight(NumberType::kBF16, 3, k, random);
  const Storage third = RandomWeight(NumberType::kQ4_0, 40, k, random);
  const auto x = random.Floats(m * k);
  const auto together = Run({first.weight, second.weight, third.weight}, x, m, 3);
  size_t column = 0;
  for (const Storage* part : {&first, &second, &third}) {
    const auto alone = Run(part->weight, x, m, 1);
    const auto rows = static_cast<size_t>(part->weight.rows);
    for (size_t i = 0; i < static_cast<size_t>(m); ++i) {
      for (size_t j = 0; j < rows; ++j) ASSERT_EQ(together[i * 62 + column + j], alone[i * rows + j]);
    }
    column += rows;
  }
}

/// Returns the standard deviation of the error of a product of x [k] with w [k]. Rounding x to integers moves each
/// number by up to half a step, evenly distributed, which gives a variance of step^2 / 12 times the square of the
/// number's weight. A step is the largest number of the block over the largest integer. Each addition of fp32 numbers
/// rounds the sum by up to half of 2^-23 of the sum. There is one addition per number or, if a block is summed in
/// integers, three additions per block.
double DeviationOfProduct(const float* x, const double* w, int64_t k, bool quantised, int most) {
  const int64_t block = quantised ? kQuantBlock : 1;
  double of_rounding = 0, of_terms = 0;
  for (int64_t first = 0; first < k; first += block) {
    float largest = 0;
    for (int64_t i = first; i < first + block; ++i) largest = std::max(largest, std::abs(x[i]));
    const double step = quantised ? largest / most : 0;
    for (int64_t i = first; i < first + block; ++i) {
      of_rounding += w[i] * w[i] * step * step / 12;
      of_terms += w[i] * w[i] * x[i] * x[i];
    }
  }
  const double additions = static_cast<double>(k / block) * (quantised ? 3 : 1);
  return std::sqrt(of_rounding + additions * 0x1p-48 * of_terms);
}

TEST_P(MatmulTest, Matmul_HasNoLargerErrors_ThanTheRoundingOfXExplains) {
  Random random(10);
  const int64_t m = 4, n = 40, k = 1056;
  const Storage w = RandomWeight(type(), n, k, random);
  const auto x = random.Floats(m * k);
  const auto weights = reference::Expand(w.weight);
  const auto expected = reference::Matmul({x.begin(), x.end()}, weights, m, n, k);
  const auto y = Run(w.weight, x, m, 1);
  double squares = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<size_t>(i * n + j);
      const double deviations =
          (y[at] - expected[at]) / DeviationOfProduct(&x[i * k], &weights[j * k], k, quantised(), most());
      EXPECT_LT(std::abs(deviations), 6) << "row " << i << ", column " << j;  // one in a billion deviates further
      squares += deviations * deviations;
    }
  }
  // If numbers were truncated instead of rounded, the root mean square of all deviations would be 2.
  EXPECT_LT(std::sqrt(squares / static_cast<double>(m * n)), 1.3);
}

TEST_P(MatmulTest, Matmul_LosesPrecisionOnlyInTheBlockOfALargeNumber) {
  Random random(7);
  const int64_t n = 20, k = 96;
  const Storage w = RandomWeight(type(), n, k, random);
  auto x = random.Floats(k);
  x[40] = 3000.0f;  // makes the steps of its block, also for its 31 neighbours, 0.09 (16 bits) or 24 (8 bits)
  const auto y = Run(w.weight, x, 1, 1);
  const auto expanded = reference::Expand(w.weight);
  const auto expected = reference::Matmul({x.begin(), x.end()}, expanded, 1, n, k);
  for (int64_t j = 0; j < n; ++j) {
    double bound = 1e-5 * (std::abs(expected[static_cast<size_t>(j)]) + 10);
    for (int64_t i = 32; i < 64; ++i) bound += 1500.0 / most() * std::abs(expanded[static_cast<size_t>(j * k + i)]);
    EXPECT_NEAR(y[static_cast<size_t>(j)], expected[static_cast<size_t>(j)], bound);
  }
}

TEST_P(MatmulTest, Matmul_GivesNonFiniteResults_WhenXIsNotFinite) {
  Random random(8);
  const Storage w = RandomWeight(type(), 4, 64, random);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto x = random.Floats(64);
    x[33] = bad;
    for (const float y : Run(w.weight, x, 1, 1)) EXPECT_FALSE(std::isfinite(y));
  }
}

// An instruction may load more columns than a product has. The bytes after the product's columns must have no effect.
TEST_P(MatmulTest, Matmul_IsUnaffected_WhenAnEarlierCallHadInfiniteNumbers) {
  Random random(16);
  const int64_t m = 31, k = quantised() ? 32 : 37;
  const Storage before = RandomWeight(type(), 17, 512, random), w = RandomWeight(type(), 17, k, random);
  const auto x = random.Floats(m * k);
  const auto expected = Run(w.weight, x, m, 1);
  Run(before.weight, std::vector<float>(static_cast<size_t>(m * 512), std::numeric_limits<float>::infinity()), m, 1);
  EXPECT_EQ(Run(w.weight, x, m, 1), expected);
  for (const float y : expected) EXPECT_TRUE(std::isfinite(y));
}

TEST_P(MatmulTest, Matmul_DoesNotOverflow_WhenXHasAVeryLargeNumber) {
  Random random(13);
  const Storage w = RandomWeight(type(), 4, 64, random);
  const auto expanded = reference::Expand(w.weight);
  const float large = most() == 127 ? 2e32f : 2e36f;
  std::vector<float> x(64);
  x[33] = large;
  const auto y = Run(w.weight, x, 1, 1);
  for (size_t row = 0; row < 4; ++row) EXPECT_NEAR(y[row] / large, expanded[row * 64 + 33], 1e-3);
}

TEST_P(MatmulTest, Matmul_GivesNonFiniteResults_WhenNumbersOverflow8BitSums) {
  Random random(15);
  const Storage w = RandomWeight(type(), 4, 64, random);
  const auto expanded = reference::Expand(w.weight);
  std::vector<float> x(64);
  x[33] = 2e33f;  // overflows the sums of 8-bit products
  const auto y = Run(w.weight, x, 1, 1);
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(std::isfinite(y[row]), !takes_bytes());
    if (!takes_bytes()) {
      EXPECT_NEAR(y[row] / 2e33f, expanded[row * 64 + 33], 1e-3);
    }
  }
}

TEST_P(MatmulTest, Matmul_GivesZeros_WhenWeightsAreZero) {
  Random random(14);
  const int64_t m = 31, n = 17, k = 64;
  Storage w = RandomWeight(type(), n, k, random);
  // The integers are zero, whatever their scale. The minima of q4_1 are zeroed, too.
  const NumberLayout layout = LayoutOf(type());
  const int zero = type() == NumberType::kQ4_0 ? 0x88 : 0;
  for (size_t i = 0; i < w.bytes.size(); ++i) {
    const bool in_scale = quantised() && type() != NumberType::kQ4_1 && i % static_cast<size_t>(layout.block_bytes) < 2;
    if (!in_scale) w.bytes[i] = static_cast<std::byte>(zero);
  }
  const auto y = Run(w.weight, random.Floats(m * k), m, 1);
  EXPECT_EQ(y, std::vector<float>(static_cast<size_t>(m * n), 0.0f));
}

TEST_P(MatmulTest, Matmul_GivesZeros_WhenXIsZero) {
  Random random(9);
  const Storage w = RandomWeight(type(), 17, 64, random);
  EXPECT_EQ(Run(w.weight, std::vector<float>(128), 2, 1), std::vector<float>(34, 0.0f));
}

TEST_P(MatmulTest, Embedding_ReadsRowsOfEveryType) {
  Random random(4);
  const Storage w = RandomWeight(type(), 7, 64, random);
  const std::vector<int32_t> ids = {6, 0, 3, 3};
  std::vector<float> out(4 * 64);
  Embedding(CpuStream(2), {NumberType::kF32, w.weight, ids.data(), out.data(), 4});
  const auto table = reference::Expand(w.weight);
  for (size_t t = 0; t < ids.size(); ++t) {
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(out[t * 64 + i], static_cast<float>(table[static_cast<size_t>(ids[t]) * 64 + i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, MatmulTest,
                         testing::Values(Case{"F32", NumberType::kF32}, Case{"F16", NumberType::kF16},
                                         Case{"BF16", NumberType::kBF16}, Case{"Q8_0", NumberType::kQ8_0},
                                         Case{"Q4_0", NumberType::kQ4_0}, Case{"Q4_1", NumberType::kQ4_1},
                                         Case{"Q8_0byInt8", NumberType::kQ8_0, Activations::kInt8},
                                         Case{"Q4_0byInt8", NumberType::kQ4_0, Activations::kInt8},
                                         Case{"Q4_1byInt8", NumberType::kQ4_1, Activations::kInt8}),
                         [](const auto& of) { return of.param.name; });

TEST(MatmulEdgeTest, RunPeak_CountsOperations_InProportionToRounds) {
  const IsaTable& table = ActiveTable();
  for (const Arithmetic arithmetic : {Arithmetic::kMultiplyAdd, Arithmetic::kInt16})
    EXPECT_GT(table.run_peak(arithmetic, 64), 0);
  EXPECT_EQ(table.run_peak(Arithmetic::kInt8, 64) > 0, table.takes_int8(NumberType::kQ4_0));
  EXPECT_NEAR(table.run_peak(Arithmetic::kInt16, 128), 2 * table.run_peak(Arithmetic::kInt16, 64), 1e-6);
}

TEST(MatmulEdgeTest, TakesInt8_IsTrueForAllQuantisedTypes_WhenTheIsaHasByteProducts) {
  const std::string isa = CpuIsaName();
  if (isa.find("vnni") == isa.npos && isa.find("amx") == isa.npos && isa.find("plain") == isa.npos) return;
  for (const NumberType type : {NumberType::kQ8_0, NumberType::kQ4_0, NumberType::kQ4_1})
    EXPECT_TRUE(ActiveTable().takes_int8(type)) << LayoutOf(type).name;
}

TEST(MatmulEdgeTest, Matmul_GivesZeros_WhenThereAreNoColumns) {
  for (const NumberType type : {NumberType::kF32, NumberType::kBF16, NumberType::kQ8_0, NumberType::kQ4_0}) {
    const Weight empty{type, nullptr, 90, 0, 0};
    for (const int64_t m : {1, 2, 30}) {
      const std::vector<float> zeros(static_cast<size_t>(m * 90));
      for (const Activations activations : {Activations::kInt16, Activations::kInt8})
        EXPECT_EQ(RunMatmul({empty}, {}, m, 1, activations), zeros);
    }
  }
}

TEST(EncodeTest, EncodeRow_RoundsNumbersWithinHalfAStep) {
  Random random(12);
  for (const auto& [type, steps] : {std::pair(NumberType::kQ8_0, 254.0f), std::pair(NumberType::kQ4_1, 15.0f)}) {
    auto numbers = random.Floats(96);
    for (int i = 0; i < 32; ++i) numbers[static_cast<size_t>(i + 32)] *= 100;  // the second block has a larger scale
    for (int i = 64; i < 96; ++i) numbers[static_cast<size_t>(i)] = 0;
    std::vector<std::byte> encoded(static_cast<size_t>(RowBytes(type, 96)));
    EncodeRow(type, numbers.data(), 96, encoded.data());
    std::vector<float> back(96);
    DecodeRow({type, encoded.data(), 1, 96, RowBytes(type, 96)}, 0, 0, 96, back.data());
    for (size_t i = 0; i < 96; ++i) {
      const float span = i < 32 ? 2 : i < 64 ? 200 : 0;
      // The scale is also rounded, to 11 bits.
      EXPECT_NEAR(back[i], numbers[i], span * (0.5f / steps + 0x1p-11f)) << "number " << i;
    }
  }
}

TEST(DecodeTest, DecodeRow_ReadsSubnormalAndInfiniteFp16Numbers) {
  const uint16_t halves[] = {0x0001, 0x03ff, 0x0400, 0x7bff, 0x8001, 0x7c00, 0xfc00, 0x3c00, 0, 0x8000, 0x1234, 0x3555};
  const Weight w{NumberType::kF16, reinterpret_cast<const std::byte*>(halves), 1, 12, 24};
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
