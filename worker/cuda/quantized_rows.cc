#include "worker/cuda/quantized_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/base/error.h"
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

/// Nibbles i and i + 16 share a byte of the block, 2 i and 2 i + 1 one on the device.
void WriteNibbles(const std::byte* block, bool has_minimum, std::byte* ints, std::byte* scales) {
  std::memcpy(scales, block, has_minimum ? 4 : 2);
  if (!has_minimum) {
    Float16 d;
    std::memcpy(&d, block, sizeof(d));
    const auto minimum = static_cast<Float16>(-8 * static_cast<float>(d));
    std::memcpy(scales + 2, &minimum, sizeof(minimum));
  }
  const std::byte* nibbles = block + (has_minimum ? 4 : 2);
  for (int i = 0; i < kHalf; ++i) {
    const int from = 2 * i % kHalf;
    const std::byte first = nibbles[from], second = nibbles[from + 1];
    ints[i] = i < kHalf / 2 ? (first & std::byte{0xf}) | second << 4 : first >> 4 | (second & std::byte{0xf0});
  }
}

}  // namespace

void WriteQuantizedRow(const Tensor& tensor, int64_t row, Range cols, NumberType type, std::byte* ints,
                       std::byte* scales) {
  // Integers with zeros of 8 could be q4_0, too: the minimum of q4_1 is then exact.
  const NumberType form = tensor.scaled != nullptr ? type : kernels::PackedType(tensor.type);
  const int64_t block_bytes = LayoutOf(form).block_bytes;
  const std::byte* blocks = nullptr;
  std::vector<std::byte> made;
  if (tensor.scaled == nullptr && tensor.type == form) {
    const kernels::Weight weight = AsWeight(tensor);
    blocks = weight.data + row * weight.row_bytes + cols.begin / kBlock * block_bytes;
  } else {
    // Blocks of the file may be longer than those of 32, and then hold columns of other ranks at the edges.
    const int64_t whole = std::max<int64_t>(DecodeBlock(tensor), kBlock);
    const int64_t begin = cols.begin / whole * whole;
    const int64_t end = std::min((cols.end + whole - 1) / whole * whole, tensor.cols());
    made.resize(static_cast<size_t>((end - begin) / kBlock * block_bytes));
    RecodeRow(tensor, form, row, begin, end - begin, made.data());
    blocks = made.data() + (cols.begin - begin) / kBlock * block_bytes;
  }
  for (int64_t i = 0; i < cols.size() / kBlock; ++i, blocks += block_bytes) {
    if (type == NumberType::kQ8_0) {
      QUIRE_CHECK(form == NumberType::kQ8_0, "8 bits of {}", LayoutOf(form).name);
      WriteBytes(blocks, ints + i * kBlock, scales + i * 2);
    } else {
      QUIRE_CHECK(form == NumberType::kQ4_0 || form == NumberType::kQ4_1, "4 bits of {}", LayoutOf(form).name);
      WriteNibbles(blocks, form == NumberType::kQ4_1, ints + i * kHalf, scales + i * 4);
    }
  }
}

}  // namespace quire
