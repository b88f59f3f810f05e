// Products by way of VNNI's instructions, on any processor (intrinsics_plainbytes.h).
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/isa/functions.h"
#include "tests/kernels/packed_case.h"
#include "tests/kernels/reference.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

using test::Random;

class ByteProductsTest : public testing::TestWithParam<NumberType> {};

TEST_P(ByteProductsTest, EqualTheReferenceWhereBytesHoldX) {
  ASSERT_TRUE(plainbytes::TakesInt8(GetParam()));
  Random random(1);
  for (const int64_t k : {32, 576, 1120}) {
    for (const int64_t n : {1, 16, 77}) {
      for (const int64_t m : {1, 2, 5, 13, 31}) {
        const test::Storage w = test::RandomWeight(GetParam(), n, k, random);
        const auto packed = test::Pack(w.weight);
        const auto x = test::OfIntegers(127, m * k, random);
        std::vector<int8_t> values(x.size());
        std::vector<float> scales(x.size() / kQuantBlock), lifts(scales.size()), sums(scales.size());
        std::vector<int32_t> begins(scales.size());
        const IntegerRows<int8_t> rows = {values.data(), scales.data(), lifts.data(), begins.data(), sums.data(), k};
        for (int64_t i = 0; i < m; ++i) plainbytes::QuantizeInt8(x.data() + i * k, rows.From(i));
        const PackedWeight weight{GetParam(), packed.data(), n, k};
        std::vector<float> y(static_cast<size_t>(m * n), -1.0f);
        plainbytes::MatmulInt8({weight, 0, weight.num_panels(), y.data(), n, m}, rows);
        const auto expected = reference::Matmul({x.begin(), x.end()}, reference::Expand(w.weight), m, n, k);
        test::ExpectNear(y, expected, 1e-4,
                         "m, n, k = " + std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k));
      }
    }
  }
}

TEST(ByteRowsTest, ShowWhatIsTooLargeForBytes) {
  for (const float large : {2e32f, 2e33f}) {
    std::vector<float> x(kQuantBlock, 1.0f);
    x[7] = large;
    std::vector<int8_t> values(x.size());
    float scale = 0, lift = 0, sum = 0;
    int32_t begin = 0;
    plainbytes::QuantizeInt8(x.data(), {values.data(), &scale, &lift, &begin, &sum, kQuantBlock});
    EXPECT_EQ(std::isfinite(scale), large == 2e32f);
    EXPECT_EQ(std::isfinite(lift), large == 2e32f);
  }
}

INSTANTIATE_TEST_SUITE_P(QuantisedTypes, ByteProductsTest,
                         testing::Values(NumberType::kQ8_0, NumberType::kQ4_0, NumberType::kQ4_1));

}  // namespace
}  // namespace quire::kernels
