#include "worker/cuda/weights/quantized_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "comm/base/error.h"
#include "comm/model/formats/scaled_matrix.h"
#include "kernels/cpu/mxfp4.h"
#include "kernels/cuda/products/quantized_gemm.h"
#include "kernels/packed_weight.h"
#include "worker/model/stored_rows.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

__extension__ using Float16 = _Float16;

constexpr int kBlock = kernels::kQuantBlock, kHalf = kBlock / 2;

void WriteBytes(const std::byte* block, std::byte* ints, std::byte* scales) {
  std::memcpy(scales, block, 2);
  for (int i = 0; i < kBlock; ++i) ints[i] = block[2 + i] ^ std::byte{0x80};
}

/// Reorders nibbles: a byte of the file's block has the numbers i and i + 16, a byte on the device the numbers 2 i and
/// 2 i + 1.
void PairNibbles(const std::byte* nibbles, std::byte* ints) {
  for (int i = 0; i < kHalf; ++i) {
    const int from = 2 * i % kHalf;
    const std::byte first = nibbles[from], second = nibbles[from + 1];
    ints[i] = i < kHalf / 2 ? (first & std::byte{0xf}) | second << 4 : first >> 4 | (second & std::byte{0xf0});
  }
}

void WriteNibbles(const std::byte* block, bool has_minimum, std::byte* ints, std::byte* scales) {
  std::memcpy(scales, block, has_minimum ? 4 : 2);
  if (!has_minimum) {
    Float16 d;
    std::memcpy(&d, block, sizeof(d));
    const auto minimum = static_cast<Float16>(-8 * static_cast<float>(d));
    std::memcpy(scales + 2, &minimum, sizeof(minimum));
  }
  PairNibbles(block + (has_minimum ? 4 : 2), ints);
}

/// Returns 2^(scale - 127) in bf16, whose exponent has as many bits as an MXFP4 scale; 255 is NaN.
uint16_t PowerOfTwo(std::byte scale) {
  const auto exponent = std::to_integer<uint16_t>(scale);
  if (exponent == 0) return 0x0040;
  return static_cast<uint16_t>(exponent == 255 ? 0x7fc0 : exponent << 7);
}

void WriteMxFp4(const kernels::MxFp4Blocks& blocks, int64_t count, std::byte* ints, std::byte* scales) {
  for (int64_t i = 0; i < count; ++i, ints += kHalf, scales += 2) {
    const std::byte* nibbles = blocks.nibbles + i * blocks.nibble_stride;
    if (blocks.pairs) {
      std::memcpy(ints, nibbles, kHalf);
    } else {
      PairNibbles(nibbles, ints);
    }
    const uint16_t scale = PowerOfTwo(blocks.scales[i * blocks.scale_stride]);
    std::memcpy(scales, &scale, sizeof(scale));
  }
}

/// Returns the columns of the whole file blocks that contain `cols`. If blocks are longer than 32 columns, the first
/// and the last block may contain columns of other ranks.
Range WholeBlocks(const Tensor& tensor, Range cols) {
  const int64_t whole = std::max<int64_t>(DecodeBlock(tensor), kBlock);
  return {cols.begin / whole * whole, std::min((cols.end + whole - 1) / whole * whole, tensor.cols())};
}

/// Rounds to the nearest E4M3 number, at most to the largest one. NaN stays NaN.
std::byte ToFp8(float x) {
  constexpr float kLargest = 448, kLeastNormal = 0x1p-6f;
  constexpr std::byte kNan{0x7f};
  if (std::isnan(x)) return kNan;
  const float size = std::min(std::abs(x), kLargest);
  const int power = size < kLeastNormal ? -6 : std::ilogb(size);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - power)));
  // If `units` is 8 to 15, it holds the leading one and the three bits of the mantissa. If it is 16, the number was
  // rounded up to the next power of two. If it is less than 8, the number is subnormal. The sum below is right in all
  // three cases.
  const int bits = (power + 6) * 8 + units;
  return static_cast<std::byte>(std::signbit(x) ? bits | 0x80 : bits);
}

/// Writes FP8 numbers. Numbers that are FP8 in the file stay unchanged, with the factors of their rows or groups. Other
/// numbers are scaled so that the largest finite magnitude in the row's columns `cols` becomes the largest FP8 number.
void WriteFp8(const Tensor& tensor, int64_t row, Range cols, NumberType type, const QuantizedRow& to) {
  if (const ScaledMatrix* matrix = tensor.scaled.get(); matrix != nullptr && matrix->fp8 != nullptr) {
    std::memcpy(to.ints, matrix->fp8 + row * matrix->cols + cols.begin, static_cast<size_t>(cols.size()));
    const int64_t step = type == NumberType::kFp8Groups ? kernels::kFp8Group : cols.size();
    std::byte* out = to.scales;
    for (int64_t col = cols.begin; col < cols.end; col += step, out += sizeof(float)) {
      const float scale = matrix->scales.At(row, matrix->GroupOf(col));
      std::memcpy(out, &scale, sizeof(scale));
    }
    return;
  }
  const Range whole = WholeBlocks(tensor, cols);
  std::vector<float> numbers(static_cast<size_t>(whole.size()));
  DecodeRow(tensor, row, whole.begin, whole.size(), numbers.data());
  const std::span<const float> mine(&numbers[static_cast<size_t>(cols.begin - whole.begin)],
                                    static_cast<size_t>(cols.size()));
  float largest = 0;
  for (const float number : mine) {
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  }
  const float scale = largest / 448;
  std::memcpy(to.scales, &scale, sizeof(scale));
  for (size_t i = 0; i < mine.size(); ++i) to.ints[i] = ToFp8(scale > 0 ? mine[i] / scale : 0.0f);
}

void WriteSixBits(const std::vector<kernels::SixBitBlock>& blocks, QuantizedRow to) {
  for (const kernels::SixBitBlock& block : blocks) {
    for (int i = 0; i < kBlock; i += 2) {
      const int first = block.numbers[i], second = block.numbers[i + 1];
      *to.ints++ = static_cast<std::byte>((first & 15) | (second & 15) << 4);
    }
    for (int i = 0; i < kBlock; i += 4) {
      int highs = 0;
      for (int j = 0; j < 4; ++j) highs |= block.numbers[i + j] >> 4 << (2 * j);
      *to.highs++ = static_cast<std::byte>(highs);
    }
    std::memcpy(to.scales, block.scales, sizeof(block.scales));
    to.scales += sizeof(block.scales);
  }
}

/// Converts columns of a row to blocks of `form`: by RecodeRow if `recodes` is true, otherwise by rounding.
std::vector<std::byte> MakeBlocks(const Tensor& tensor, NumberType form, bool recodes, int64_t row, Range cols) {
  const int64_t block_bytes = LayoutOf(form).block_bytes;
  const auto [begin, end] = WholeBlocks(tensor, cols);
  std::vector<std::byte> made(static_cast<size_t>((end - begin) / kBlock * block_bytes));
  if (recodes) {
    RecodeRow(tensor, form, row, begin, end - begin, made.data());
  } else {
    std::vector<float> numbers(static_cast<size_t>(end - begin));
    DecodeRow(tensor, row, begin, end - begin, numbers.data());
    kernels::EncodeRow(form, numbers.data(), end - begin, made.data());
  }
  made.erase(made.begin(), made.begin() + (cols.begin - begin) / kBlock * block_bytes);
  return made;
}

std::vector<kernels::SixBitBlock> ReadBlocks(const Tensor& tensor, int64_t row, Range cols) {
  const Range whole = WholeBlocks(tensor, cols);
  std::vector<kernels::SixBitBlock> blocks(static_cast<size_t>(whole.size() / kBlock));
  kernels::ReadSixBits(AsWeight(tensor), row, whole.begin, whole.size(), blocks.data());
  const auto first = blocks.begin() + (cols.begin - whole.begin) / kBlock;
  return {first, first + cols.size() / kBlock};
}

}  // namespace

void WriteQuantizedRow(const Tensor& tensor, NumberType packed, int64_t row, Range cols, NumberType type,
                       const QuantizedRow& to) {
  const int64_t count = cols.size() / kBlock;
  if (type == NumberType::kMxFp4)
    return WriteMxFp4(kernels::BlocksOf(AsWeight(tensor), row, cols.begin), count, to.ints, to.scales);
  if (kernels::IsFp8(type)) return WriteFp8(tensor, row, cols, type, to);
  if (kernels::HasSixBits(type)) return WriteSixBits(ReadBlocks(tensor, row, cols), to);
  const bool recodes = LayoutOf(packed).block_numbers > 1;
  const NumberType form = recodes ? packed : type;  // also q4_0, whose minima are added below
  const int64_t block_bytes = LayoutOf(form).block_bytes;
  const std::byte* blocks = nullptr;
  std::vector<std::byte> made;
  if (tensor.scaled == nullptr && tensor.type == form) {
    const kernels::Weight weight = AsWeight(tensor);
    blocks = weight.data + row * weight.row_bytes + cols.begin / kBlock * block_bytes;
  } else {
    made = MakeBlocks(tensor, form, recodes, row, cols);
    blocks = made.data();
  }
  for (int64_t i = 0; i < count; ++i, blocks += block_bytes) {
    if (type == NumberType::kQ8_0) {
      QUIRE_CHECK(form == NumberType::kQ8_0, "8 bits of {}", LayoutOf(form).name);
      WriteBytes(blocks, to.ints + i * kBlock, to.scales + i * 2);
    } else {
      QUIRE_CHECK(form == NumberType::kQ4_0 || form == NumberType::kQ4_1, "4 bits of {}", LayoutOf(form).name);
      WriteNibbles(blocks, form == NumberType::kQ4_1, to.ints + i * kHalf, to.scales + i * 4);
    }
  }
}

}  // namespace quire
