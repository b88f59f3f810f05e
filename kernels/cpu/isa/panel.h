#pragma once

#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

// What products of plain and of quantised weights share: the sums of a tile, and the order of tiles.
namespace quire::kernels::QUIRE_ISA {

/// Vectors that hold one number of every row of a panel.
inline constexpr int kVecs = kPanelRows / kLanes;
static_assert(kPanelRows % kLanes == 0);

/// Panels that share each number of x where many rows do: where a panel is one vector, loading x would take longer than
/// multiplying it.
inline constexpr int kWidePanels = kVecs == 1 ? 2 : 1;

/// The sums of MT rows of x with V vectors of panels' rows, in registers from y's numbers so far to y. Each of them is
/// one chain of additions along the columns, whatever the tile's shape: that is what makes a result independent of the
/// batch.
template <int MT, int V>
struct TileSums {
  static constexpr int64_t kRows = V * kLanes;  // of weights
  Vec sum[MT][V];

  void Clear() {
    Unrolled<MT>([&](auto i) QUIRE_INLINE { Unrolled<V>([&](auto v) QUIRE_INLINE { sum[i][v] = Vec{}; }); });
  }
  // count: the panels' rows that there are, 1..kRows.
  void Load(const float* y, int64_t y_stride, int64_t count) {
    for (int i = 0; i < MT; ++i, y += y_stride) {
      float row[kRows] = {};
      __builtin_memcpy(row, y, static_cast<unsigned long>(count) * sizeof(float));
      for (int v = 0; v < V; ++v) sum[i][v] = QUIRE_ISA::Load(row + v * kLanes);
    }
  }
  void Store(float* y, int64_t y_stride, int64_t count) const {
    for (int i = 0; i < MT; ++i, y += y_stride) {
      float row[kRows];  // sums whose address is taken would not stay in registers
      float* to = count == kRows ? y : row;
      for (int v = 0; v < V; ++v) QUIRE_ISA::Store(to + v * kLanes, sum[i][v]);
      if (to == row) __builtin_memcpy(y, row, static_cast<unsigned long>(count) * sizeof(float));
    }
  }
};

/// Adds to y, or begins it with, what rows [m0, m1) of x and some panels from `panel` on make of some columns, in tiles
/// of `most` rows at most.
template <int most, int panels, class Add>
void AddTiles(const PanelProduct& p, bool begins, int64_t m0, int64_t m1, int64_t panel, const Add& add) {
  const int64_t count = Least(panels * kPanelRows, p.weight.rows - panel * kPanelRows);
  for (int64_t row = m0; row < m1; row += most) {
    float* y = p.y + row * p.y_stride + panel * kPanelRows;
    WithRows<most>(Least(most, m1 - row), [&]<int MT>() {
      TileSums<MT, panels * kVecs> sums;
      if (begins) {
        sums.Clear();
      } else {
        sums.Load(y, p.y_stride, count);
      }
      add(row, panel, sums);
      sums.Store(y, p.y_stride, count);
    });
  }
}

/// Adds some columns of the product to y, or begins y with them. Cuts x into blocks of rows that stay in the
/// second-level cache, goes through all panels for each of them and, for each panel, through tiles of `most` rows at
/// most; or, for each kWidePanels, of most_wide rows. add(row, panel, sums) adds to the sums of the rows from `row`
/// on.
template <int most, int most_wide, class Add>
void ForTiles(const PanelProduct& p, bool begins, int64_t rows_in_cache, const Add& add) {
  for (int64_t m0 = 0; m0 < p.m; m0 += rows_in_cache) {
    const int64_t m1 = Least(p.m, m0 + rows_in_cache);
    int64_t panel = p.panel_begin;
    if constexpr (kWidePanels > 1) {
      if (m1 - m0 >= most_wide) {
        for (; panel + kWidePanels <= p.panel_end; panel += kWidePanels)
          AddTiles<most_wide, kWidePanels>(p, begins, m0, m1, panel, add);
      }
    }
    for (; panel < p.panel_end; ++panel) AddTiles<most, 1>(p, begins, m0, m1, panel, add);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
