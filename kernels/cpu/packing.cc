#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

namespace {

bool HasMinimum(NumberType type) { return type == NumberType::kQ4_1; }

/// Returns the bytes of the fp16 numbers before the quants of a block: d, or d and m.
int64_t HeadBytes(NumberType type) { return HasMinimum(type) ? 4 : 2; }

/// Packs a panel of plain numbers T, `together` neighbouring columns of a row side by side.
template <class T, int64_t together = 1>
void PackNumbers(int64_t cols, const std::byte* const* rows, std::byte* out) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  for (int64_t col = 0; col < cols; col += together, out += kPanelRows * together * kSize) {
    const int64_t count = std::min(together, cols - col);
    for (int64_t r = 0; r < kPanelRows; ++r) {
      if (rows[r] == nullptr) continue;
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(out + (r * together + i) * kSize, rows[r] + (col + i) * kSize, sizeof(T));
    }
  }
}

/// Writes the 32 quants of one row's block into the panel's cells, each quant plus 128.
void PackBytes(const std::byte* quants, int64_t row, std::byte* cells) {
  for (int64_t col = 0; col < kQuantBlock; ++col) {
    const int64_t part = col / 8 * 2 + col / 2 % 2, place = col % 2 * 2 + col / 4 % 2;
    cells[(part * kPanelRows + row) * 4 + place] = quants[col] ^ std::byte{0x80};
  }
}

void PackNibbles(const std::byte* quants, int64_t row, std::byte* cells) {
  const auto number = [&](int64_t i) {  // number i in GGUF's nibble order, see comm/base/number_type.h
    const auto byte = static_cast<unsigned>(quants[i % 16]);
    return i < 16 ? byte & 15 : byte >> 4;
  };
  for (int64_t group = 0; group < kQuantBlock / 8; ++group) {
    for (int64_t parity = 0; parity < 2; ++parity) {
      unsigned cell = 0;
      for (int64_t j = 0; j < 4; ++j) cell |= number(8 * group + 2 * j + parity) << (4 * j);
      const auto half = static_cast<uint16_t>(cell);
      std::memcpy(cells + ((group * kPanelRows + row) * 2 + parity) * 2, &half, 2);
    }
  }
}

void PackBlocks(NumberType type, int64_t cols, const std::byte* const* rows, std::byte* out) {
  const NumberLayout layout = LayoutOf(type);
  const int64_t head = HeadBytes(type), panel_block = layout.block_bytes * kPanelRows;
  for (int64_t block = 0; block < cols / kQuantBlock; ++block, out += panel_block) {
    std::byte* cells = out + head * kPanelRows;
    for (int64_t r = 0; r < kPanelRows; ++r) {
      if (rows[r] == nullptr) continue;
      const std::byte* in = rows[r] + block * layout.block_bytes;
      std::memcpy(out + 2 * r, in, 2);
      if (HasMinimum(type)) std::memcpy(out + 2 * (kPanelRows + r), in + 2, 2);
      if (type == NumberType::kQ8_0) {
        PackBytes(in + head, r, cells);
      } else {
        PackNibbles(in + head, r, cells);
      }
    }
  }
}

}  // namespace

int64_t PanelBytes(NumberType type, int64_t cols) {
  const int64_t filled = (cols + kQuantBlock - 1) / kQuantBlock * kQuantBlock;
  return kPanelRows * RowBytes(type, type == NumberType::kBF16 ? filled : cols);
}

int64_t PackedBytes(NumberType type, int64_t rows, int64_t cols) {
  return (rows + kPanelRows - 1) / kPanelRows * PanelBytes(type, cols);
}

void PackPanel(NumberType type, int64_t cols, const std::byte* const* rows, std::byte* out) {
  QUIRE_KERNEL_CHECK(IsWeightType(type) && PackedType(type) == type);
  std::memset(out, 0, static_cast<size_t>(PanelBytes(type, cols)));
  switch (type) {
    case NumberType::kF32:
      return PackNumbers<uint32_t>(cols, rows, out);
    case NumberType::kF16:
      return PackNumbers<uint16_t>(cols, rows, out);
    case NumberType::kBF16:
      return PackNumbers<uint16_t, 2>(cols, rows, out);
    default:
      QUIRE_KERNEL_CHECK(cols % kQuantBlock == 0);
      return PackBlocks(type, cols, rows, out);
  }
}

}  // namespace quire::kernels
