#pragma once

#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

// What products of plain and of quantised weights share: the sums of a tile, the order of tiles.
namespace quire::kernels::QUIRE_ISA {

/// Vectors that hold one number of every row of a panel.
inline constexpr int kVecs = kPanelRows / kLanes;
static_assert(kPanelRows % kLanes == 0);

/// Panels that share each number of x where many rows do: where a panel is one vector, loading x would take longer than
/// multiplying it.
inline constexpr int kWidePanels = kVecs == 1 ? 2 : 1;

/// Panels that go together where few rows of x have a chain of additions each: four take as long as memory does.
inline constexpr int kFewRowsPanels = kVecs < 4 ? 4 / kVecs : 1;

/// The sums of MT rows of x with V vectors of panels' rows, in registers from y's numbers so far to y. Each of them is
/// one chain of additions along the columns, whatever the tile's shape: so a result is independent of the batch.
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

/// One of the tiles that go through the same panels one after another.
struct Tile {
  int64_t row, panel;             // the first of its rows of x, and of its panels
  int64_t index, count;           // among those tiles
  bool panels_begin, panels_end;  // no panels come before these, or behind them
};

/// Adds to y, or begins it with, what rows [m0, m1) of x and some panels make of some columns, in tiles of about as
/// many rows each, `most` at most.
template <int most, int panels, class Add>
void AddTiles(const PanelProduct& p, bool begins, int64_t m0, int64_t m1, int64_t panel, const Add& add) {
  const int64_t columns = Least(panels * kPanelRows, p.weight.rows - panel * kPanelRows);
  const int64_t count = (m1 - m0 + most - 1) / most, rows = (m1 - m0 + count - 1) / count;
  for (int64_t i = 0, row = m0; row < m1; ++i, row += rows) {
    float* y = p.y + row * p.y_stride + panel * kPanelRows;
    const Tile tile{row, panel, i, count, panel == p.panel_begin, panel + panels >= p.panel_end};
    WithRows<most>(Least(rows, m1 - row), [&]<int MT>() {
      TileSums<MT, panels * kVecs> sums;
      if (begins) {
        sums.Clear();
      } else {
        sums.Load(y, p.y_stride, columns);
      }
      add(tile, sums);
      sums.Store(y, p.y_stride, columns);
    });
  }
}

/// Adds some columns of the product to y, or begins y with them. Cuts x into blocks of rows that stay in the
/// second-level cache, goes through all panels for each of them and, for each panel, through tiles of Shape::kRows at
/// most; or, for each kWidePanels, of kWideRows, if there are kLeastWideRows of them; or, for each kFewRowsPanels, of
/// all, if they are kFewRows at most. add(tile, sums) adds to the sums of a tile.
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
