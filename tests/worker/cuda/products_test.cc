// Tests products with quantised weights: of many rows, which the library multiplies part by part, and of few rows.
#include "worker/cuda/decoder/products.h"

#include <gtest/gtest.h>

#include "worker/cuda/products_case.h"

namespace quire {
namespace {

TEST(QuantizedProductsTest, Products_OfManyRows_EqualProductsOfFewRows) {
  for (const NumberType type : {NumberType::kQ4_1, NumberType::kQ8_0, NumberType::kQ6_K, NumberType::kFp8Groups}) {
    const test::ManyAndFew products(type);
    EXPECT_GT(products.Largest(), 0.2);
    EXPECT_LT(products.Difference(), 2e-3 * products.Largest()) << LayoutOf(type).name;
    for (size_t i = products.few.size(); i < products.many.size(); ++i) EXPECT_NE(products.many[i], 0) << i;
  }
}

TEST(QuantizedProductsTest, Products_OfManyRows_AreNearProductsOfFewRows_WithFp8Weights) {
  // If the library has FP8 products, x is rounded to FP8, and each number is off by at most 2^-4 of itself. Errors of
  // different signs partly cancel, so sums are off by less than 3 % of the largest sum.
  const test::ManyAndFew products(NumberType::kFp8E4M3);
  EXPECT_GT(products.Largest(), 0.2);
  EXPECT_LT(products.Difference(), 0.03 * products.Largest());
  for (size_t i = products.few.size(); i < products.many.size(); ++i) EXPECT_NE(products.many[i], 0) << i;
}

}  // namespace
}  // namespace quire
