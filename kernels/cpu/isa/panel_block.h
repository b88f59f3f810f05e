#pragma once

#include "kernels/cpu/isa/panel.h"

// Access to a block (32 columns) of a panel of quantised weights.
namespace quire::kernels::QUIRE_ISA {

/// The blocks of the same 32 columns in one or several panels.
struct PanelBlocks {
  static constexpr bool kUnpacked = false;

  const std::byte* data;
  int64_t stride;  // bytes between panels

  const std::byte* OfVector(int v) const { return data + v / kVecs * stride; }
};

/// Blocks with an additional copy of their weights, unpacked for products: cells [step][vector].
struct UnpackedBlocks : PanelBlocks {
  static constexpr bool kUnpacked = true;

  const std::byte* cells;
};

/// The layout of a block of a panel: 32 columns of 16 rows (packed_weight.h).
template <NumberType Type>
struct Block {
  static constexpr bool kHasMinimum = Type == NumberType::kQ4_1;
  static constexpr bool kIsBytes = Type == NumberType::kQ8_0;
  static constexpr int64_t kHeadBytes = (kHasMinimum ? 4 : 2) * kPanelRows;
  static constexpr int64_t kBytes = kHeadBytes + (kIsBytes ? kQuantBlock : kQuantBlock / 2) * kPanelRows;

  /// Returns integers of group `group` of eight columns, for the rows of vector `v`: of all eight columns (nibbles), or
  /// of four of them (bytes; part 0 or 1).
  static CellVec Cell(const PanelBlocks& blocks, int group, int part, int v) {
    const int at = kIsBytes ? 2 * group + part : group;
    return LoadAs<CellVec>(blocks.OfVector(v) + kHeadBytes +
                           (at * kVecs + v % kVecs) * static_cast<int>(sizeof(CellVec)));
  }

  /// Returns the scales (part 0) or minima (part 1) of the rows of vector `v`.
  static Vec Head(const PanelBlocks& blocks, int part, int v) {
    return HalfToFloat(
        LoadAs<ShortVec>(blocks.OfVector(v) + 2 * kPanelRows * part + v % kVecs * static_cast<int>(sizeof(ShortVec))));
  }
};

}  // namespace quire::kernels::QUIRE_ISA
