#pragma once

#include "kernels/cpu/isa/vec_types.h"

// Operations for which the instruction set has no instruction, in plain C++ for any number of lanes.
namespace quire::kernels::QUIRE_ISA {

/// Returns a * b + c with two roundings, because there is no fused instruction.
inline Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }

inline IntVec Widen(ShortVec v) { return __builtin_convertvector(v, IntVec); }
inline IntVec Widen(SignedByteVec v) { return __builtin_convertvector(v, IntVec); }

inline Vec HalfToFloat(ShortVec half) {
  const IntVec h = __builtin_convertvector(half, IntVec);
  const Vec scaled = reinterpret_cast<Vec>((h & 0x7fff) << 13) * 0x1p112f;
  const IntVec special = ((h & 0x7c00) == 0x7c00) & 0x7f800000;
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(scaled) | special | ((h & 0x8000) << 16));
}

/// Converts floats to fp16. Rounds to nearest, ties to even; magnitudes from 65,520 on become infinite. The function
/// works on the floats' bits: larger magnitudes have larger bits, and a mantissa that overflows in rounding carries
/// into the exponent.
inline ShortVec FloatToHalf(Vec v) {
  const IntVec bits = reinterpret_cast<IntVec>(v), magnitude = bits & 0x7fffffff;
  const IntVec infinite = magnitude >= (127 + 16) << 23, tiny = magnitude < (127 - 14) << 23;
  const IntVec nan = magnitude > 0x7f800000;
  const IntVec rounded = (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const IntVec halves_half = IntVec{} + ((127 - 15 + 13 + 1) << 23);  // its last bit has the value of the smallest half
  const IntVec subnormal =
      reinterpret_cast<IntVec>(reinterpret_cast<Vec>(magnitude) + reinterpret_cast<Vec>(halves_half)) - halves_half;
  const IntVec finite = (tiny & subnormal) | (~tiny & rounded);
  const IntVec sign = (bits >> 16) & 0x8000;
  return __builtin_convertvector((infinite & 0x7c00) | (~infinite & finite) | (nan & 0x0200) | sign, ShortVec);
}

/// Transposes four rows of bytes that are `stride` bytes apart: lane i gets byte i of each row, the first row's byte
/// lowest.
inline IntVec LoadQuads(const int8_t* rows, int64_t stride) {
  int8_t bytes[4 * kLanes];
  for (int i = 0; i < 4 * kLanes; ++i) bytes[i] = rows[i % 4 * stride + i / 4];
  return LoadAs<IntVec>(bytes);
}

}  // namespace quire::kernels::QUIRE_ISA
