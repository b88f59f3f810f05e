#include "simt/numeric.h"

#include <bit>

namespace quire::simt {

namespace {

/// A floating-point format with `mantissa` stored bits and an exponent bias. Numbers below 2^(1 - bias) are subnormal.
struct Format {
  int mantissa, bias;
};
constexpr Format kHalf{10, 15}, kE4M3{3, 7};

/// Returns the bits of |x| in the format, rounded to nearest even. x is finite. A value that is too large gets an
/// exponent beyond the largest one.
uint32_t Encode(float x, Format f) {
  if (x == 0) return 0;
  int exponent;
  std::frexp(x, &exponent);                              // |x| in [0.5, 1) * 2^exponent
  const int scale = std::max(exponent - 1, 1 - f.bias);  // exponent of the result, at least the smallest
  const double units = std::ldexp(std::fabs(double{x}), f.mantissa - scale);  // units of the last place, exact
  const auto rounded = static_cast<uint32_t>(std::nearbyint(units));
  return (static_cast<uint32_t>(scale + f.bias - 1) << f.mantissa) + rounded;  // a hidden bit or a carry adds 1 there
}

float Decode(uint32_t magnitude, Format f) {
  const int field = static_cast<int>(magnitude >> f.mantissa);
  const int fraction = static_cast<int>(magnitude) & ((1 << f.mantissa) - 1);
  if (field == 0) return std::ldexp(static_cast<float>(fraction), 1 - f.bias - f.mantissa);
  return std::bit_cast<float>(static_cast<uint32_t>((field - f.bias + 127) << 23 | fraction << (23 - f.mantissa)));
}

}  // namespace

float ToFloat(Half x) {
  const uint32_t magnitude = x.bits & 0x7fff;
  const float value = magnitude > 0x7c00 ? NAN : magnitude == 0x7c00 ? INFINITY : Decode(magnitude, kHalf);
  return x.bits & 0x8000 ? -value : value;
}

float ToFloat(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

float ToFloat(Fp8E4M3 x) {
  const float value = (x.bits & 0x7f) == 0x7f ? NAN : Decode(x.bits & 0x7fu, kE4M3);
  return x.bits & 0x80 ? -value : value;
}

template <>
Half FromFloat<Half>(float x) {
  if (std::isnan(x)) return {0x7fff};
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const uint32_t magnitude = std::fabs(x) >= 65520.0f ? 0x7c00 : Encode(x, kHalf);
  return {static_cast<uint16_t>(sign | magnitude)};
}

template <>
BFloat16 FromFloat<BFloat16>(float x) {
  if (std::isnan(x)) return {0x7fff};
  const auto bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

template <>
Fp8E4M3 FromFloat<Fp8E4M3>(float x) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return {static_cast<uint8_t>(0x7f)};
  const uint32_t magnitude = std::fabs(x) >= 448.0f ? 0x7e : Encode(x, kE4M3);
  return {static_cast<uint8_t>(sign | magnitude)};
}

}  // namespace quire::simt
