#pragma once

// Block layouts of the quantisation formats that occur only in model files. Weights in these formats are converted to
// other formats before matrix products. The layouts are ggml's.
// Nibbles are in ggml's order, low halves first (comm/base/number_type.h).
//
// Blocks of 32 numbers:
//   q5_0: fp16 d, 32 fifth bits, nibbles      value = d * (q - 16)
//   q5_1: fp16 d, fp16 m, fifth bits, nibbles value = d * q + m
//   iq4_nl: fp16 d, nibbles                   value = d * u[q], u a table of 16 integers
// Blocks of 256 numbers:
//   q4_k: fp16 d, fp16 n, 6 bits of scale s   value = d * s * q - n * t
//         and of minimum t for each 32 numbers
//         in 12 bytes, 128 bytes of nibbles
//   q5_k: the same, with 32 bytes of fifth
//         bits before the nibbles
//   q6_k: 128 bytes of low four bits, 64 of   value = d * s * (q - 32)
//         high two, int8 s for each 16 numbers,
//         fp16 d
//   q2_k: 4 bits of s and of t for each 16,   value = d * s * q - n * t
//         64 bytes of two bits, fp16 d, fp16 n
//   q3_k: 32 bytes of third bits, 64 of two,  value = d * (s - 32) * (q - 4)
//         6 bits of s for each 16, fp16 d
//   iq4_xs: fp16 d, the high two bits and the value = d * (s - 32) * u[q]
//         low four of s for each 32, nibbles
#include <cstddef>

namespace quire::kernels {

inline constexpr int kSuperBlock = 256;

inline int At(const std::byte* p) { return std::to_integer<int>(*p); }

/// Reads 5-bit numbers: bit i of `high` is the fifth bit of number i.
struct FiveBits {
  const std::byte *high, *nibbles;
  int operator[](int i) const {
    const int nibble = i < 16 ? At(nibbles + i) & 15 : At(nibbles + i - 16) >> 4;
    return nibble | (At(high + i / 8) >> (i % 8) & 1) << 4;
  }
};

/// Reads the scales and minima of the eight blocks of 32 numbers in a superblock: 6 bits each, in 12 bytes.
struct SixBitScales {
  const std::byte* bytes;
  int scale(int block) const {
    return block < 4 ? At(bytes + block) & 63 : (At(bytes + block + 4) & 15) | At(bytes + block - 4) >> 6 << 4;
  }
  int minimum(int block) const {
    return block < 4 ? At(bytes + block + 4) & 63 : At(bytes + block + 4) >> 4 | At(bytes + block) >> 6 << 4;
  }
};

/// Returns number i of block `block` (32 numbers) of a superblock. Two consecutive blocks share 32 bytes of nibbles.
inline int NibbleOf(const std::byte* nibbles, int block, int i) {
  const int byte = At(nibbles + block / 2 * 32 + i);
  return block % 2 == 0 ? byte & 15 : byte >> 4;
}

/// Returns the fifth bit of number i of a q5_k block, shifted into place: bit `block` of byte i.
inline int FifthBitOf(const std::byte* fifth, int block, int i) { return (At(fifth + i) >> block & 1) << 4; }

/// Returns number i of a q6_k superblock, which has two halves of 128 numbers. In a half, number i has its low four
/// bits in byte i % 64 and its high two bits in byte i % 32.
inline int SixBitsOf(const std::byte* in, int i) {
  const int half = i / 128, at = i % 128;
  const int four = At(in + half * 64 + at % 64) >> (at < 64 ? 0 : 4) & 15;
  return four | (At(in + 128 + half * 32 + at % 32) >> (at / 32 * 2) & 3) << 4;
}

}  // namespace quire::kernels
