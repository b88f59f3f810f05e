// Decodes GGUF's formats of 1 to 3 bits. A code of iq1 or iq2 encodes 8 numbers, a code of iq3 encodes 4
// (quant_grids.h). The signs of iq2's and iq3's numbers are stored separately. In tq1_0 and tq2_0 numbers are -1, 0 or
// 1, and a byte holds five or four of them.
#include "kernels/cpu/grid_quants.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/file_blocks.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/quant_grids.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

namespace {

constexpr int kBlocks = kSuperBlock / kQuantBlock;
constexpr float kValuesOfIQ2[4] = {8, 25, 43, 0}, kValuesOfIQ3XXS[8] = {4, 12, 20, 28, 36, 44, 52, 62},
                kValuesOfIQ3S[8] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr float kDelta = 0.125f;  // iq1 adds this offset to all numbers of a group, or subtracts it from them

uint16_t Word(const std::byte* from) { return static_cast<uint16_t>(At(from) | At(from + 1) << 8); }
uint32_t LongWord(const std::byte* from) { return Word(from) | static_cast<uint32_t>(Word(from + 2)) << 16; }

/// Returns the signs of eight numbers from seven stored bits. The eighth sign follows from the others, because the
/// number of negative numbers is even.
unsigned SignsOf(unsigned seven) { return seven | (static_cast<unsigned>(std::popcount(seven)) & 1) << 7; }

int NibbleAt(const std::byte* from, int i) { return At(from + i / 2) >> (i % 2 * 4) & 15; }

/// Writes the 8 numbers of a code of iq2.
void PutIQ2(unsigned code, unsigned signs, float scale, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float size = scale * kValuesOfIQ2[code >> (2 * i) & 3];
    out[i] = (signs >> i & 1) != 0 ? -size : size;
  }
}

/// Writes the 4 numbers of a code of iq3.
void PutIQ3(unsigned code, const float (&values)[8], unsigned signs, float scale, float* out) {
  for (int i = 0; i < 4; ++i) {
    const float size = scale * values[code >> (3 * i) & 7];
    out[i] = (signs >> i & 1) != 0 ? -size : size;
  }
}

/// Writes the 8 numbers of a code of iq1.
void PutIQ1(unsigned code, float delta, float scale, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(static_cast<int>(code >> (2 * i) & 3) - 1) + delta);
}

// Decoders of one superblock. If each 32 numbers share a scale, they write these scales to `scales`.

void DecodeIQ2XXS(const std::byte* in, float* out, float* scales) {
  const float d = GetHalf(in);
  for (int block = 0; block < kBlocks; ++block) {
    const std::byte* const codes = in + 2 + 8 * block;
    const uint32_t more = LongWord(codes + 4);
    scales[block] = d * (0.5f + static_cast<float>(more >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k, out += 8)
      PutIQ2(kGridOfIQ2XXS[At(codes + k)], SignsOf(more >> (7 * k) & 127), scales[block], out);
  }
}

void DecodeIQ2XS(const std::byte* in, float* out) {
  const float d = GetHalf(in);
  for (int k = 0; k < kSuperBlock / 8; ++k, out += 8) {
    const unsigned word = Word(in + 2 + 2 * k);
    const float scale = d * (0.5f + static_cast<float>(NibbleAt(in + 66, k / 2))) * 0.25f;
    PutIQ2(kGridOfIQ2XS[word & 511], SignsOf(word >> 9), scale, out);
  }
}

void DecodeIQ2S(const std::byte* in, float* out) {
  const std::byte *codes = in + 2, *signs = in + 34, *high = in + 66, *nibbles = in + 74;
  const float d = GetHalf(in);
  for (int k = 0; k < kSuperBlock / 8; ++k, out += 8) {
    const unsigned code = At(codes + k) | (At(high + k / 4) >> (2 * (k % 4)) & 3) << 8;
    const float scale = d * (0.5f + static_cast<float>(NibbleAt(nibbles, k / 2))) * 0.25f;
    PutIQ2(kGridOfIQ2S[code], At(signs + k), scale, out);
  }
}

void DecodeIQ3XXS(const std::byte* in, float* out, float* scales) {
  const float d = GetHalf(in);
  for (int block = 0; block < kBlocks; ++block) {
    const std::byte* const codes = in + 2 + 8 * block;
    const uint32_t more = LongWord(in + 66 + 4 * block);
    scales[block] = d * (0.5f + static_cast<float>(more >> 28)) * 0.5f;
    for (int k = 0; k < 8; ++k, out += 4) {
      const unsigned signs = SignsOf(more >> (7 * (k / 2)) & 127) >> (k % 2 * 4);
      PutIQ3(kGridOfIQ3XXS[At(codes + k)], kValuesOfIQ3XXS, signs, scales[block], out);
    }
  }
}

void DecodeIQ3S(const std::byte* in, float* out, float* scales) {
  const std::byte *codes = in + 2, *high = in + 66, *signs = in + 74, *nibbles = in + 106;
  const float d = GetHalf(in);
  for (int block = 0; block < kBlocks; ++block) {
    scales[block] = d * static_cast<float>(1 + 2 * NibbleAt(nibbles, block));
    for (int k = 0; k < 8; ++k, out += 4) {
      const unsigned code = At(codes + 8 * block + k) | (At(high + block) >> k & 1) << 8;
      const unsigned four = static_cast<unsigned>(NibbleAt(signs, 8 * block + k));
      PutIQ3(kGridOfIQ3S[code], kValuesOfIQ3S, four, scales[block], out);
    }
  }
}

void DecodeIQ1S(const std::byte* in, float* out, float* scales) {
  const float d = GetHalf(in);
  for (int block = 0; block < kBlocks; ++block) {
    const unsigned more = Word(in + 34 + 2 * block);
    scales[block] = d * static_cast<float>(2 * (more >> 12 & 7) + 1);
    const float delta = (more & 0x8000) != 0 ? -kDelta : kDelta;
    for (int k = 0; k < 4; ++k, out += 8) {
      const unsigned code = At(in + 2 + 4 * block + k) | (more >> (3 * k) & 7) << 8;
      PutIQ1(kGridOfIQ1[code], delta, scales[block], out);
    }
  }
}

/// Decodes iq1_m. The four words of scales each have four bits of the superblock's scale in their high bits.
void DecodeIQ1M(const std::byte* in, float* out) {
  const std::byte *high = in + 32, *words = in + 48;
  unsigned bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<unsigned>(Word(words + 2 * i) >> 12) << (4 * i);
  const std::byte half[2] = {std::byte(bits & 255), std::byte(bits >> 8)};
  const float d = GetHalf(half);
  for (int k = 0; k < kSuperBlock / 8; ++k, out += 8) {
    const int nibble = NibbleAt(high, k), group = k / 2;
    const unsigned code = At(in + k) | static_cast<unsigned>(nibble & 7) << 8;
    const int scale = Word(words + group / 4 * 2) >> (3 * (group % 4)) & 7;
    PutIQ1(kGridOfIQ1[code], (nibble & 8) != 0 ? -kDelta : kDelta, d * static_cast<float>(2 * scale + 1), out);
  }
}

/// Writes d * (t - 1) for each of `count` bytes, where t is digit number `digit` of the byte in base three.
void PutDigits(const std::byte* bytes, int count, int digit, float d, float* out) {
  constexpr unsigned kPowers[5] = {1, 3, 9, 27, 81};
  for (int i = 0; i < count; ++i) {
    const unsigned moved = At(bytes + i) * kPowers[digit] & 255;
    out[i] = d * static_cast<float>(static_cast<int>(moved * 3 >> 8) - 1);
  }
}

void DecodeTQ1(const std::byte* in, float* out, float* scales) {
  const float d = GetHalf(in + 52);
  for (int i = 0; i < kBlocks; ++i) scales[i] = d;
  for (int digit = 0; digit < 5; ++digit, out += 32) PutDigits(in, 32, digit, d, out);
  for (int digit = 0; digit < 5; ++digit, out += 16) PutDigits(in + 32, 16, digit, d, out);
  for (int digit = 0; digit < 4; ++digit, out += 4) PutDigits(in + 48, 4, digit, d, out);
}

void DecodeTQ2(const std::byte* in, float* out, float* scales) {
  const float d = GetHalf(in + 64);
  for (int block = 0; block < kBlocks; ++block) {
    scales[block] = d;
    const std::byte* const bytes = in + block / 4 * 32;
    for (int i = 0; i < kQuantBlock; ++i)
      *out++ = d * static_cast<float>((At(bytes + i) >> (2 * (block % 4)) & 3) - 1);
  }
}

/// Decodes a superblock. Returns true if each 32 numbers share a scale; `scales` then holds these scales.
bool Decode(NumberType type, const std::byte* in, float* out, float* scales) {
  switch (type) {
    case NumberType::kIQ1_S:
      DecodeIQ1S(in, out, scales);
      return true;
    case NumberType::kIQ1_M:
      DecodeIQ1M(in, out);
      return false;
    case NumberType::kIQ2_XXS:
      DecodeIQ2XXS(in, out, scales);
      return true;
    case NumberType::kIQ2_XS:
      DecodeIQ2XS(in, out);
      return false;
    case NumberType::kIQ2_S:
      DecodeIQ2S(in, out);
      return false;
    case NumberType::kIQ3_XXS:
      DecodeIQ3XXS(in, out, scales);
      return true;
    case NumberType::kIQ3_S:
      DecodeIQ3S(in, out, scales);
      return true;
    case NumberType::kTQ1_0:
      DecodeTQ1(in, out, scales);
      return true;
    case NumberType::kTQ2_0:
      DecodeTQ2(in, out, scales);
      return true;
    default:
      QUIRE_KERNEL_CHECK(false);
      return false;
  }
}

int Steps(float number, float step) { return step == 0 ? 0 : static_cast<int>(std::lround(number / step)); }

/// Writes 16 bytes of nibbles: number i in the low half of byte i, number i + 16 in the high half.
void PutNibbles(const int (&numbers)[kQuantBlock], std::byte* out) {
  for (int i = 0; i < kQuantBlock / 2; ++i)
    out[i] = static_cast<std::byte>(numbers[i] | numbers[i + kQuantBlock / 2] << 4);
}

/// Writes a block of iq1_s as q4_1. A number of the block is (x + delta) times the scale, where x is -1, 0 or 1, and
/// all numbers share the delta.
void PutWithMinimum(const float* numbers, float scale, std::byte* out) {
  int q[kQuantBlock];
  float delta = 0;
  for (int i = 0; i < kQuantBlock; ++i) {
    const int eighths = Steps(numbers[i], scale * kDelta);  // 8 times -1, 0 or 1, plus or minus 1
    const int whole = (eighths + 12) / 8 - 1;
    q[i] = whole + 1;
    delta = static_cast<float>(eighths - 8 * whole) * kDelta;
  }
  PutHalf(scale, out);
  PutHalf(scale * (delta - 1), out + 2);
  PutNibbles(q, out + 4);
}

}  // namespace

void DecodeGridQuants(NumberType type, const std::byte* in, float* out) {
  float scales[kBlocks];
  Decode(type, in, out, scales);
}

bool KeepGridQuants(NumberType type, const std::byte* in, std::byte* out) {
  float numbers[kSuperBlock], scales[kBlocks];
  if (!Decode(type, in, numbers, scales)) return false;
  const bool ternary = type == NumberType::kTQ1_0 || type == NumberType::kTQ2_0;
  for (int block = 0; block < kBlocks; ++block) {
    const float *const from = numbers + block * kQuantBlock, scale = scales[block];
    if (type == NumberType::kIQ1_S) {
      PutWithMinimum(from, scale, out);
      out += LayoutOf(NumberType::kQ4_1).block_bytes;
      continue;
    }
    PutHalf(scale, out);
    if (ternary) {
      int q[kQuantBlock];
      for (int i = 0; i < kQuantBlock; ++i) q[i] = Steps(from[i], scale) + 8;
      PutNibbles(q, out + 2);
      out += LayoutOf(NumberType::kQ4_0).block_bytes;
    } else {
      for (int i = 0; i < kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(Steps(from[i], scale));
      out += LayoutOf(NumberType::kQ8_0).block_bytes;
    }
  }
  return true;
}

}  // namespace quire::kernels
