#include "simt/numeric.h"

#include <gtest/gtest.h>

#include <bit>

namespace quire::simt {
namespace {

/// Expects that every finite number of a format survives the conversion to float and back, and that halfway points
/// between two numbers round to the even one.
template <class T, class Bits>
void ExpectRoundTrip(Bits largest_finite) {
  for (Bits bits = 0; bits <= largest_finite; ++bits) {
    const float x = ToFloat(T{bits});
    ASSERT_EQ(FromFloat<T>(x).bits, bits) << x;
    ASSERT_EQ(FromFloat<T>(-x).bits, bits | (1u << (sizeof(Bits) * 8 - 1))) << x;
    if (bits == largest_finite) break;
    const float next = ToFloat(T{static_cast<Bits>(bits + 1)});
    ASSERT_LT(x, next);
    const float half_way = static_cast<float>((double{x} + next) / 2);
    if (x == half_way) continue;  // float has no value between a subnormal bf16 and the next
    ASSERT_EQ(FromFloat<T>(half_way).bits, bits % 2 == 0 ? bits : bits + 1) << half_way;
    ASSERT_EQ(FromFloat<T>(std::nextafter(half_way, 0.0f)).bits, bits) << half_way;
    ASSERT_EQ(FromFloat<T>(std::nextafter(half_way, INFINITY)).bits, bits + 1) << half_way;
  }
}

TEST(NumericTest, FromFloat_RoundTripsEveryNumber_AndRoundsHalfwayToEven) {
  ExpectRoundTrip<Half, uint16_t>(0x7bff);
  ExpectRoundTrip<BFloat16, uint16_t>(0x7f7f);
  ExpectRoundTrip<Fp8E4M3, uint8_t>(0x7e);
}

TEST(NumericTest, FromFloat_SaturatesOrOverflows_AndKeepsNaN) {
  EXPECT_EQ(ToFloat(FromFloat<Half>(65504)), 65504);
  EXPECT_EQ(ToFloat(FromFloat<Half>(65519)), 65504);
  EXPECT_EQ(ToFloat(FromFloat<Half>(65520)), INFINITY);
  EXPECT_EQ(ToFloat(FromFloat<Half>(-INFINITY)), -INFINITY);
  EXPECT_EQ(ToFloat(FromFloat<BFloat16>(INFINITY)), INFINITY);
  EXPECT_EQ(ToFloat(FromFloat<BFloat16>(3.4e38f)), INFINITY);
  EXPECT_EQ(ToFloat(FromFloat<Fp8E4M3>(1e9f)), 448);
  EXPECT_EQ(ToFloat(FromFloat<Fp8E4M3>(-INFINITY)), -448);
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Half>(NAN))));
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<BFloat16>(NAN))));
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Fp8E4M3>(NAN))));
  EXPECT_EQ(FromFloat<Half>(0x1p-25f).bits, 0);    // half of the smallest number rounds to the even one, 0
  EXPECT_EQ(FromFloat<Half>(0x1.8p-25f).bits, 1);  // nearer to the smallest number than to 0
  EXPECT_EQ(FromFloat<Fp8E4M3>(0x1p-9f).bits, 1);  // the smallest number
  EXPECT_EQ(FromFloat<Fp8E4M3>(1e-30f).bits, 0);
}

}  // namespace
}  // namespace quire::simt
