#pragma once

#include "kernels/cpu/isa/fetch.h"
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

// The sums of a tile and the order of tiles, for plain and quantised products.
namespace quire::kernels::QUIRE_ISA {

/// Vectors per column of a panel: kPanelRows numbers, one for each row.
inline constexpr int kVecs = kPanelRows / kLanes;
static_assert(kPanelRows % kLanes == 0);

/// The number of panels per tile when x has many rows. If a panel is one vector wide, two panels share each load of x,
/// because loading x would otherwise take longer than multiplying.
inline constexpr int kWidePanels = kVecs == 1 ? 2 : 1;

/// The number of panels per tile when x has few rows. Each row's sums form one chain of additions per vector; with four
/// vectors, the additions keep up with memory.
inline constexpr int kFewRowsPanels = kVecs < 4 ? 4 / kVecs : 1;

/// The sums of MT rows of x with V vectors of panel rows, in registers between Load from y and Store to y. Each sum is
/// one chain of additions along the columns, whatever the tile's shape, so results do not depend on the batch.
template <int MT, int V>
struct TileSums {
  static constexpr int64_t kRows = V * kLanes;  // rows of the weight
  Vec sum[MT][V];

  void Clear() {
    Unrolled<MT>([&](auto i) QUIRE_INLINE { Unrolled<V>([&](auto v) QUIRE_INLINE { sum[i][v] = Vec{}; }); });
  }
  // Loads the sums from y. `count`: number of existing panel rows, 1..kRows.
  void Load(const float* y, int64_t y_stride, int64_t count) {
    for (int i = 0; i < MT; ++i, y += y_stride) {
      float row[kRows] = {};
      __builtin_memcpy(row, y, static_cast<unsigned long>(count) * sizeof(float));
      for (int v = 0; v < V; ++v) sum[i][v] = QUIRE_ISA::Load(row + v * kLanes);
    }
  }
  void Store(float* y, int64_t y_stride, int64_t count) const {
    for (int i = 0; i < MT; ++i, y += y_stride) {
      float row[kRows];  // a copy, because taking the address of `sum` would move it out of the registers
      float* to = count == kRows ? y : row;
      for (int v = 0; v < V; ++v) QUIRE_ISA::Store(to + v * kLanes, sum[i][v]);
      if (to == row) __builtin_memcpy(y, row, static_cast<unsigned long>(count) * sizeof(float));
    }
  }
};

/// A tile: some rows of x and some panels. Tiles with the same panels are visited one after another.
struct Tile {
  int64_t row, panel;             // first row of x, first panel
  int64_t index, count;           // position and number of the tiles that share these panels
  bool panels_begin, panels_end;  // true for the first and the last panels of the product, respectively
};

/// Adds (or, with `begins`, assigns) to y the products of rows [m0, m1) of x with some panels for some columns. Cuts
/// the rows into tiles of about equal size, at most `most` rows each.
template <int most, int panels, class Add>
void AddTiles(const PanelProduct& p, bool begins, int64_t m0, int64_t m1, int64_t panel, const Add& add) {
  const int64_t columns = Least(panels * kPanelRows, p.weight.rows - panel * kPanelRows);
  const int64_t count = (m1 - m0 + most - 1) / most, rows = (m1 - m0 + count - 1) / count;
  for (int64_t i = 0, row = m0; row < m1; ++i, row += rows) {
    float* y = p.y + row * p.y_stride + panel * kPanelRows;
    const Tile tile{row, panel, i, count, panel == p.panel_begin, panel + panels >= p.panel_end};
    WithRows<most>(Least(rows, m1 - row), [&]<int MT>() {
      FetchForWriting(y, p.y_stride, MT, columns);
      TileSums<MT, panels * kVecs> sums;
      begins ? sums.Clear() : sums.Load(y, p.y_stride, columns);
      add(tile, sums);
      sums.Store(y, p.y_stride, columns);
    });
  }
}

/// Adds (or, with `begins`, assigns) to y the products for some columns; add(tile, sums) adds a tile's products to its
/// sums. Cuts x into blocks of rows that stay in the second-level cache, and visits all panels for each block. Up to
/// kFewRows rows are multiplied with kFewRowsPanels panels at a time. At least kLeastWideRows rows are multiplied with
/// kWidePanels panels at a time, in tiles of up to kWideRows rows. Other numbers of rows are multiplied in tiles of up
/// to kRows rows.
template <class Shape, class Add>
void ForTiles(const PanelProduct& p, bool begins, int64_t rows_in_cache, const Add& add) {
  for (int64_t m0 = 0; m0 < p.m; m0 += rows_in_cache) {
    const int64_t m1 = Least(p.m, m0 + rows_in_cache);
    int64_t panel = p.panel_begin;
    const auto go = [&]<int panels, int rows>() {
      for (; panel + panels <= p.panel_end; panel += panels) AddTiles<rows, panels>(p, begins, m0, m1, panel, add);
    };
    if constexpr (Shape::kFewRows > 0) {
      if (m1 - m0 <= Shape::kFewRows) go.template operator()<kFewRowsPanels, Shape::kFewRows>();
    }
    if constexpr (kWidePanels > 1) {
      if (m1 - m0 >= Shape::kLeastWideRows) go.template operator()<kWidePanels, Shape::kWideRows>();
    }
    go.template operator()<1, Shape::kRows>();
  }
}

}  // namespace quire::kernels::QUIRE_ISA
