#pragma once

#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

// What products of plain and of quantised weights share: the sums of a tile, and the order of tiles.
namespace quire::kernels::QUIRE_ISA {

/// Vectors that hold one number of every row of a panel.
inline constexpr int kVecs = kPanelRows / kLanes;
static_assert(kPanelRows % kLanes == 0);

/// The sums of MT rows of x with one panel, in registers from y's numbers so far to y. Each of them is one chain of
/// additions along the columns, whatever the tile's shape: that is what makes a result independent of the batch.
template <int MT>
struct TileSums {
  Vec sum[MT][kVecs];

  void Clear() {
    Unrolled<MT>([&](auto i) QUIRE_INLINE { Unrolled<kVecs>([&](auto v) QUIRE_INLINE { sum[i][v] = Vec{}; }); });
  }
  // count: the panel's rows that there are, 1..kPanelRows.
  void Load(const float* y, int64_t y_stride, int64_t count) {
    for (int i = 0; i < MT; ++i, y += y_stride) {
      float row[kPanelRows] = {};
      __builtin_memcpy(row, y, static_cast<unsigned long>(count) * sizeof(float));
      for (int v = 0; v < kVecs; ++v) sum[i][v] = QUIRE_ISA::Load(row + v * kLanes);
    }
  }
  void Store(float* y, int64_t y_stride, int64_t count) const {
    for (int i = 0; i < MT; ++i, y += y_stride) {
      float row[kPanelRows];  // sums whose address is taken would not stay in registers
      float* to = count == kPanelRows ? y : row;
      for (int v = 0; v < kVecs; ++v) QUIRE_ISA::Store(to + v * kLanes, sum[i][v]);
      if (to == row) __builtin_memcpy(y, row, static_cast<unsigned long>(count) * sizeof(float));
    }
  }
};

/// Adds some columns of the product to y, or begins y with them. Cuts x into blocks of rows that stay in the
/// second-level cache, goes through all panels for each of them and, for each panel, through tiles of `most` rows at
/// most. add.template operator()<MT>(row, panel, sums) adds to the sums of MT rows from `row` on.
template <int most, class Add>
void ForTiles(const PanelProduct& p, bool begins, int64_t rows_in_cache, const Add& add) {
  for (int64_t m0 = 0; m0 < p.m; m0 += rows_in_cache) {
    const int64_t m1 = Least(p.m, m0 + rows_in_cache);
    for (int64_t panel = p.panel_begin; panel < p.panel_end; ++panel) {
      const int64_t count = Least(kPanelRows, p.weight.rows - panel * kPanelRows);
      for (int64_t row = m0; row < m1; row += most) {
        float* y = p.y + row * p.y_stride + panel * kPanelRows;
        WithRows<most>(Least(most, m1 - row), [&]<int MT>() {
          TileSums<MT> sums;
          if (begins) {
            sums.Clear();
          } else {
            sums.Load(y, p.y_stride, count);
          }
          add.template operator()<MT>(row, panel, sums);
          sums.Store(y, p.y_stride, count);
        });
      }
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
