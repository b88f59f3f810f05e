#include "simt/numeric.h"

namespace quire::simt {

namespace {

// E4M3 has three stored bits of mantissa. Numbers below 2^-6 are subnormal.
constexpr int kMantissa = 3, kBias = 7;

/// Returns the bits of |x|, rounded to nearest even. x is finite. A value that is too large gets an exponent beyond the
/// largest one.
uint32_t Encode(float x) {
  if (x == 0) return 0;
  int exponent;
  std::frexp(x, &exponent);                             // |x| in [0.5, 1) * 2^exponent
  const int scale = std::max(exponent - 1, 1 - kBias);  // exponent of the result, at least the smallest
  const double units = std::ldexp(std::fabs(double{x}), kMantissa - scale);  // units of the last place, exact
  const auto rounded = static_cast<uint32_t>(std::nearbyint(units));
  return (static_cast<uint32_t>(scale + kBias - 1) << kMantissa) + rounded;  // an implicit bit or a carry adds 1
}

float Decode(uint32_t magnitude) {
  const int field = static_cast<int>(magnitude >> kMantissa);
  const int fraction = static_cast<int>(magnitude) & ((1 << kMantissa) - 1);
  if (field == 0) return std::ldexp(static_cast<float>(fraction), 1 - kBias - kMantissa);
  return std::bit_cast<float>(static_cast<uint32_t>((field - kBias + 127) << 23 | fraction << (23 - kMantissa)));
}

}  // namespace

float ToFloat(Fp8E4M3 x) {
  const float value = (x.bits & 0x7f) == 0x7f ? NAN : Decode(x.bits & 0x7fu);
  return x.bits & 0x80 ? -value : value;
}

template <>
Fp8E4M3 FromFloat<Fp8E4M3>(float x) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return {static_cast<uint8_t>(0x7f)};
  const uint32_t magnitude = std::fabs(x) >= 448.0f ? 0x7e : Encode(x);
  return {static_cast<uint8_t>(sign | magnitude)};
}

}  // namespace quire::simt
