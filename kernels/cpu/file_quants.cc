// The quantisation formats that model files have and products do not: numbers out of them, and rows of them in formats
// that products have. Layouts: ggml's, as weight.h gives them.
#include <cstring>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/mxfp4.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

namespace {

constexpr int kSuperBlock = 256;

int At(const std::byte* p) { return std::to_integer<int>(*p); }

/// The fifth bits of 32 numbers, bit i for number i, above their nibbles.
struct FiveBits {
  const std::byte *high, *nibbles;
  int operator[](int i) const {
    const int nibble = i < 16 ? At(nibbles + i) & 15 : At(nibbles + i - 16) >> 4;
    return nibble | (At(high + i / 8) >> (i % 8) & 1) << 4;
  }
};

/// Scale and minimum of the eight blocks of 32 numbers of a superblock: 6 bits each in 12 bytes.
struct SixBitScales {
  const std::byte* bytes;
  int scale(int block) const {
    return block < 4 ? At(bytes + block) & 63 : (At(bytes + block + 4) & 15) | At(bytes + block - 4) >> 6 << 4;
  }
  int minimum(int block) const {
    return block < 4 ? At(bytes + block + 4) & 63 : At(bytes + block + 4) >> 4 | At(bytes + block) >> 6 << 4;
  }
};

/// Number i of a block of 32 of a superblock: two blocks after one another share 32 bytes of nibbles.
int NibbleOf(const std::byte* nibbles, int block, int i) {
  const int byte = At(nibbles + block / 2 * 32 + i);
  return block % 2 == 0 ? byte & 15 : byte >> 4;
}

void DecodeQ5(const std::byte* in, bool has_minimum, float* out) {
  const FiveBits quants{in + (has_minimum ? 4 : 2), in + (has_minimum ? 8 : 6)};
  const float d = GetHalf(in), m = has_minimum ? GetHalf(in + 2) : -16 * d;
  for (int i = 0; i < kQuantBlock; ++i) out[i] = d * static_cast<float>(quants[i]) + m;
}

/// q4_k, and with a fifth bit q5_k: bit b of byte i for number i of block b.
void DecodeQ45K(const std::byte* in, const std::byte* fifth, const std::byte* nibbles, float* out) {
  const float d = GetHalf(in), least = GetHalf(in + 2);
  const SixBitScales scales{in + 4};
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block) {
    const float scale = d * static_cast<float>(scales.scale(block));
    const float minimum = least * static_cast<float>(scales.minimum(block));
    for (int i = 0; i < kQuantBlock; ++i) {
      const int high = fifth != nullptr ? (At(fifth + i) >> block & 1) << 4 : 0;
      *out++ = scale * static_cast<float>(NibbleOf(nibbles, block, i) | high) - minimum;
    }
  }
}

/// Two halves of 128 numbers; in each, number i has its low four bits in byte i % 64 and its high two in byte i % 32.
void DecodeQ6K(const std::byte* in, float* out) {
  const std::byte *low = in, *high = in + 128, *scales = in + 192;
  const float d = GetHalf(in + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128, at = i % 128;
    const int four = At(low + half * 64 + at % 64) >> (at < 64 ? 0 : 4) & 15;
    const int two = At(high + half * 32 + at % 32) >> (at / 32 * 2) & 3;
    const auto scale = static_cast<int8_t>(At(scales + i / 16));
    out[i] = d * static_cast<float>(scale) * static_cast<float>((four | two << 4) - 32);
  }
}

/// The same integers; their sixteen is taken off here.
void Q5AsQ8(const std::byte* in, std::byte* out) {
  const FiveBits quants{in + 2, in + 6};
  std::memcpy(out, in, 2);
  for (int i = 0; i < kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(quants[i] - 16);
}

/// The same nibbles; each block's scale and minimum are rounded to halves.
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
    case NumberType::kQ4_K:
      return NumberType::kQ4_1;
    case NumberType::kQ5_0:
    case NumberType::kQ5_1:
    case NumberType::kQ5_K:
    case NumberType::kQ6_K:
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
      default:
        QUIRE_KERNEL_CHECK(false);
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
  if (weight.type == NumberType::kQ5_0) {
    for (; in != end; in += from.block_bytes, out += out_bytes) Q5AsQ8(in, out);
  } else if (weight.type == NumberType::kQ4_K) {
    for (; in != end; in += from.block_bytes, out += out_bytes) Q4KAsQ4(in, out);
  } else {
    std::vector<float> numbers(static_cast<size_t>(count));
    DecodeFileQuants(weight.type, in, count, numbers.data());
    EncodeRow(packed, numbers.data(), count, out);
  }
}

}  // namespace quire::kernels
