// Decodes the quantisation formats that occur only in model files (file_blocks.h), and converts their rows to formats
// that products support.
#include <cstring>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/file_blocks.h"
#include "kernels/cpu/grid_quants.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/mxfp4.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

namespace {

void DecodeQ5(const std::byte* in, bool has_minimum, float* out) {
  const FiveBits quants{in + (has_minimum ? 4 : 2), in + (has_minimum ? 8 : 6)};
  const float d = GetHalf(in), m = has_minimum ? GetHalf(in + 2) : -16 * d;
  for (int i = 0; i < kQuantBlock; ++i) out[i] = d * static_cast<float>(quants[i]) + m;
}

/// Decodes a q4_k superblock, or a q5_k superblock if `fifth` (the fifth bits) is not null.
void DecodeQ45K(const std::byte* in, const std::byte* fifth, const std::byte* nibbles, float* out) {
  const float d = GetHalf(in), least = GetHalf(in + 2);
  const SixBitScales scales{in + 4};
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block) {
    const float scale = d * static_cast<float>(scales.scale(block));
    const float minimum = least * static_cast<float>(scales.minimum(block));
    for (int i = 0; i < kQuantBlock; ++i) {
      const int high = fifth != nullptr ? FifthBitOf(fifth, block, i) : 0;
      *out++ = scale * static_cast<float>(NibbleOf(nibbles, block, i) | high) - minimum;
    }
  }
}

void DecodeQ6K(const std::byte* in, float* out) {
  const std::byte* scales = in + 192;
  const float d = GetHalf(in + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const auto scale = static_cast<int8_t>(At(scales + i / 16));
    out[i] = d * static_cast<float>(scale) * static_cast<float>(SixBitsOf(in, i) - 32);
  }
}

/// Returns the two low bits of number i (q2_k, q3_k). Each half of 128 numbers occupies 32 bytes, and each quarter of a
/// half takes two bits of every byte. Every 16 numbers share a scale and, in q2_k, a minimum.
int TwoBitsOf(const std::byte* bits, int i) { return At(bits + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3; }

void DecodeQ2K(const std::byte* in, float* out) {
  const std::byte *scales = in, *bits = in + 16;
  const float d = GetHalf(in + 80), least = GetHalf(in + 82);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int scale = At(scales + i / 16);
    out[i] = d * static_cast<float>(scale & 15) * static_cast<float>(TwoBitsOf(bits, i)) -
             least * static_cast<float>(scale >> 4);
  }
}

/// Decodes a q3_k superblock. The third bit of number i is bit i / 32 of byte i % 32. If it is clear, the number is its
/// two low bits minus 4.
void DecodeQ3K(const std::byte* in, float* out) {
  const std::byte *third = in, *bits = in + 32, *scales = in + 96;
  const float d = GetHalf(in + 108);
  const auto scale_of = [scales](int k) {
    const int low = At(scales + k % 8) >> (k < 8 ? 0 : 4) & 15, high = At(scales + 8 + k % 4) >> (k / 4 * 2) & 3;
    return (low | high << 4) - 32;
  };
  for (int i = 0; i < kSuperBlock; ++i) {
    const int less = (At(third + i % 32) >> (i / 32) & 1) != 0 ? 0 : 4;
    out[i] = d * static_cast<float>(scale_of(i / 16)) * static_cast<float>(TwoBitsOf(bits, i) - less);
  }
}

/// The values of the 4-bit codes of iq4_nl and iq4_xs, to be multiplied by a scale.
constexpr int8_t kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
int UnevenOf(const std::byte* nibbles, int i) {
  return kUneven[i < 16 ? At(nibbles + i) & 15 : At(nibbles + i - 16) >> 4];
}

/// Returns the scale of an iq4_xs block of 32: 6 bits, minus 32.
int UnevenScale(const std::byte* in, int block) {
  const int high = At(in + 2) | At(in + 3) << 8;
  return ((At(in + 4 + block / 2) >> (block % 2 * 4) & 15) | (high >> (2 * block) & 3) << 4) - 32;
}

void DecodeIQ4NL(const std::byte* in, float* out) {
  const float d = GetHalf(in);
  for (int i = 0; i < kQuantBlock; ++i) out[i] = d * static_cast<float>(UnevenOf(in + 2, i));
}

void DecodeIQ4XS(const std::byte* in, float* out) {
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block) {
    const float d = GetHalf(in) * static_cast<float>(UnevenScale(in, block));
    for (int i = 0; i < kQuantBlock; ++i) *out++ = d * static_cast<float>(UnevenOf(in + 8 + block * 16, i));
  }
}

void IQ4NLAsQ8(const std::byte* in, std::byte* out) {
  std::memcpy(out, in, 2);
  for (int i = 0; i < kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(UnevenOf(in + 2, i));
}

/// Converts iq4_xs to q8_0: nibbles become the integers of kUneven, and each block's scale is rounded to fp16.
void IQ4XSAsQ8(const std::byte* in, std::byte* out) {
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block) {
    PutHalf(GetHalf(in) * static_cast<float>(UnevenScale(in, block)), out);
    for (int i = 0; i < kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(UnevenOf(in + 8 + block * 16, i));
    out += LayoutOf(NumberType::kQ8_0).block_bytes;
  }
}

/// Converts q5_0 to q8_0: the integers stay, without the 16 that q5_0 adds to them.
void Q5AsQ8(const std::byte* in, std::byte* out) {
  const FiveBits quants{in + 2, in + 6};
  std::memcpy(out, in, 2);
  for (int i = 0; i < kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(quants[i] - 16);
}

/// Converts q4_k to q4_1: the nibbles stay, and each block's scale and minimum are rounded to fp16.
void Q4KAsQ4(const std::byte* in, std::byte* out) {
  const float d = GetHalf(in), least = GetHalf(in + 2);
  const SixBitScales scales{in + 4};
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block) {
    PutHalf(d * static_cast<float>(scales.scale(block)), out);
    PutHalf(-least * static_cast<float>(scales.minimum(block)), out + 2);
    for (int i = 0; i < 16; ++i) {
      const int low = NibbleOf(in + 16, block, i), high = NibbleOf(in + 16, block, i + 16);
      out[4 + i] = static_cast<std::byte>(low | high << 4);
    }
    out += LayoutOf(NumberType::kQ4_1).block_bytes;
  }
}

}  // namespace

NumberType PackedType(NumberType stored) {
  switch (stored) {
    case NumberType::kTQ1_0:
    case NumberType::kTQ2_0:
      return NumberType::kQ4_0;
    case NumberType::kQ4_K:
    case NumberType::kIQ1_S:
      return NumberType::kQ4_1;
    case NumberType::kIQ1_M:
    case NumberType::kIQ2_XXS:
    case NumberType::kIQ2_XS:
    case NumberType::kIQ2_S:
    case NumberType::kIQ3_XXS:
    case NumberType::kIQ3_S:
    case NumberType::kQ5_0:
    case NumberType::kQ5_1:
    case NumberType::kQ5_K:
    case NumberType::kQ6_K:
    case NumberType::kQ2_K:
    case NumberType::kQ3_K:
    case NumberType::kIQ4_NL:
    case NumberType::kIQ4_XS:
    case NumberType::kMxFp4:
    case NumberType::kMxFp4Pairs:
      return NumberType::kQ8_0;
    default:
      return stored;
  }
}

void DecodeFileQuants(NumberType type, const std::byte* in, int64_t count, float* out) {
  const NumberLayout layout = LayoutOf(type);
  for (const float* end = out + count; out != end; in += layout.block_bytes, out += layout.block_numbers) {
    switch (type) {
      case NumberType::kQ5_0:
      case NumberType::kQ5_1:
        DecodeQ5(in, type == NumberType::kQ5_1, out);
        break;
      case NumberType::kQ4_K:
        DecodeQ45K(in, nullptr, in + 16, out);
        break;
      case NumberType::kQ5_K:
        DecodeQ45K(in, in + 16, in + 48, out);
        break;
      case NumberType::kQ6_K:
        DecodeQ6K(in, out);
        break;
      case NumberType::kQ2_K:
        DecodeQ2K(in, out);
        break;
      case NumberType::kQ3_K:
        DecodeQ3K(in, out);
        break;
      case NumberType::kIQ4_NL:
        DecodeIQ4NL(in, out);
        break;
      case NumberType::kIQ4_XS:
        DecodeIQ4XS(in, out);
        break;
      default:
        DecodeGridQuants(type, in, out);
    }
  }
}

void RecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, std::byte* out) {
  const NumberLayout from = LayoutOf(weight.type);
  const NumberType packed = PackedType(weight.type);
  const int64_t out_bytes = RowBytes(packed, from.block_numbers);
  QUIRE_KERNEL_CHECK(row < weight.rows && col + count <= weight.cols && col % from.block_numbers == 0);
  if (IsMxFp4(weight.type)) return MxFp4AsQ8(BlocksOf(weight, row, col), count / from.block_numbers, out);
  const std::byte* in = weight.data + row * weight.row_bytes + RowBytes(weight.type, col);
  const std::byte* end = in + RowBytes(weight.type, count);
  void (*const keep)(const std::byte*, std::byte*) = weight.type == NumberType::kQ5_0     ? Q5AsQ8
                                                     : weight.type == NumberType::kQ4_K   ? Q4KAsQ4
                                                     : weight.type == NumberType::kIQ4_NL ? IQ4NLAsQ8
                                                     : weight.type == NumberType::kIQ4_XS ? IQ4XSAsQ8
                                                                                          : nullptr;
  if (IsGridType(weight.type) && KeepGridQuants(weight.type, in, out)) {
    while ((in += from.block_bytes) != end) KeepGridQuants(weight.type, in, out += out_bytes);
  } else if (keep != nullptr) {
    for (; in != end; in += from.block_bytes, out += out_bytes) keep(in, out);
  } else {
    std::vector<float> numbers(static_cast<size_t>(count));
    DecodeFileQuants(weight.type, in, count, numbers.data());
    EncodeRow(packed, numbers.data(), count, out);
  }
}

}  // namespace quire::kernels
