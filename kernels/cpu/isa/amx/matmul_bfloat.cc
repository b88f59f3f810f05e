// Computes products of bf16 weights with fp32 x by AMX tiles. Each number of x is exactly the sum of three bf16
// numbers, which are multiplied separately. Products of bf16 numbers are exact in fp32, so the result is as accurate as
// by fp32 multiply-add. The bits differ, because the sums have another order (within 32 columns, first the even and
// then the odd columns).
#include "kernels/cpu/isa/amx/tile_rows.h"
#include "kernels/cpu/isa/next_panels.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr int kTerms = 3;
/// kStepCols: columns per step. kCols: columns that are summed at a time. kRowsNear: rows of x that stay in the
/// second-level cache.
constexpr int64_t kStepCols = 32, kSteps = 32, kCols = kStepCols * kSteps, kRowsNear = 64;
constexpr int64_t kPairBytes = 4 * kPanelRows, kStepBytes = kStepCols / 2 * kPairBytes;

// Numbers of tile registers. kSum: the sums of two tiles of rows with two panels; kX: the two tiles of x; kW: the two
// panels.
constexpr int kSum = 0, kX = 4, kW = 6;

/// Some rows and columns of x as three bf16 terms each, padded with zeros to a whole step.
class Terms {
 public:
  Terms(const float* x, int64_t x_stride, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < cols; k += kLanes) Split(x + i * x_stride + k, Least(kLanes, cols - k), i, k);
      if (cols % kStepCols != 0 && cols % kStepCols <= kLanes) Split(x, 0, i, cols / kStepCols * kStepCols + kLanes);
    }
  }

  const uint16_t* At(int64_t step, int term, int64_t row) const { return numbers_[step][term][row]; }

 private:
  /// Splits numbers into three bf16 terms. Each term is the upper 16 bits of the remainder that the previous terms
  /// leave. Three terms hold all 24 bits of the significand.
  void Split(const float* x, int64_t count, int64_t row, int64_t k) {
    Vec left = count == kLanes ? Load(x) : LoadPart(x, count);
    for (int term = 0; term < kTerms; ++term) {
      const IntVec bits = reinterpret_cast<IntVec>(left) & static_cast<int32_t>(0xffff0000);
      const auto upper = __builtin_convertvector(bits >> 16, ShortVec);
      __builtin_memcpy(&numbers_[k / kStepCols][term][row][k % kStepCols], &upper, sizeof(upper));
      left -= reinterpret_cast<Vec>(bits);
    }
  }

  alignas(64) uint16_t numbers_[kSteps][kTerms][kRowsNear][kStepCols];
};

/// The numbers of rows in two tiles; `second` may be 0.
struct TileRows {
  int64_t first, second;
  bool operator==(const TileRows&) const = default;
};

void ShapeTiles(const TileRows& rows) {
  TileShapes shapes{};
  for (int i = 0; i < 8; ++i) {
    const bool is_second = i < kX ? i >= kSum + 2 : i == kX + 1;
    shapes.rows[i] = static_cast<uint8_t>(i >= kW ? kStepCols / 2 : is_second ? rows.second : rows.first);
    shapes.bytes[i] = shapes.rows[i] == 0 ? 0 : kPairBytes;
  }
  SetTiles(shapes);
}

/// The sums of R tiles of rows with P panels. The sums start from y's current values and become y's new values.
template <int R, int P>
struct Sums {
  alignas(64) float of[R][P][kTileRows][kLanes];

  template <class Move>
  void ForRows(const TileRows& rows, const Move& move) {
    for (int64_t r = 0; r < R; ++r) {
      const int64_t count = r == 0 ? rows.first : rows.second;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t p = 0; p < P; ++p) move(of[r][p][i], r * rows.first + i, p);
      }
    }
  }
};

/// Adds the products of some columns of R tiles of rows with P panels to the sums.
template <int R, int P>
void MultiplyTiles(const Terms& x, int64_t row, const TileRows& rows, const std::byte* w, int64_t w_stride,
                   int64_t steps, NextPanels next, Sums<R, P>& sums) {
  const auto for_sums = [&](const auto& use) QUIRE_INLINE {
    Unrolled<R>([&](auto r) QUIRE_INLINE { Unrolled<P>([&](auto p) QUIRE_INLINE { use(r, p); }); });
  };
  for_sums([&](auto r, auto p) QUIRE_INLINE { LoadTile<kSum + 2 * r + p>(sums.of[r][p], kPairBytes); });
  for (int64_t step = 0; step < steps; ++step, w += kStepBytes) {
    next.Fetch<P>(w_stride);
    Unrolled<P>([&](auto p) QUIRE_INLINE { LoadTile<kW + p>(w + p * w_stride, kPairBytes); });
    for (int term = 0; term < kTerms; ++term) {
      Unrolled<R>([&](auto r) QUIRE_INLINE { LoadTile<kX + r>(x.At(step, term, row + r * rows.first), kPairBytes); });
      for_sums([&](auto r, auto p) QUIRE_INLINE { AddBFloats<kSum + 2 * r + p, kX + r, kW + p>(); });
    }
  }
  for_sums([&](auto r, auto p) QUIRE_INLINE { StoreTile<kSum + 2 * r + p>(sums.of[r][p], kPairBytes); });
}

/// The rows and columns that one call multiplies.
struct Part {
  const PanelProduct& product;
  const Terms& x;     // the terms of the rows from m0 on
  int64_t m0, m1;     // rows of x
  int64_t k0, steps;  // first column, number of steps
  TileRows& shaped;   // rows for which the tile registers are configured

  template <int P>
  void Multiply(int64_t panel) const {
    const int64_t tiles = (m1 - m0 + kTileRows - 1) / kTileRows, most = (m1 - m0 + tiles - 1) / tiles;
    for (int64_t i = 0, row = m0; row < m1; i += 2, row += 2 * most) {
      const TileRows rows{Least(most, m1 - row), Most(0, Least(most, m1 - row - most))};
      const Tile tile{row, panel, i / 2, (tiles + 1) / 2, panel == product.panel_begin, panel + P >= product.panel_end};
      rows.second > 0 ? MultiplyRows<2, P>(tile, rows) : MultiplyRows<1, P>(tile, rows);
    }
  }

  template <int R, int P>
  void MultiplyRows(const Tile& tile, const TileRows& rows) const {
    const int64_t stride = PanelBytes(NumberType::kBF16, product.weight.cols);
    const std::byte* data = product.weight.data + tile.panel * stride + k0 / 2 * kPairBytes;
    float* y = product.y + tile.row * product.y_stride + tile.panel * kPanelRows;
    const auto columns = [&](int64_t p) {
      return static_cast<unsigned long>(Least(kPanelRows, product.weight.rows - (tile.panel + p) * kPanelRows)) *
             sizeof(float);
    };
    FetchForWriting(y, product.y_stride, rows.first + rows.second,
                    Least(P * kPanelRows, product.weight.rows - tile.panel * kPanelRows));
    Sums<R, P> sums;
    if (k0 == 0) {
      __builtin_memset(&sums, 0, sizeof(sums));
    } else {
      sums.ForRows(rows, [&](float* sum, int64_t row, int64_t p) {
        __builtin_memcpy(sum, y + row * product.y_stride + p * kPanelRows, columns(p));
      });
    }
    if (!(rows == shaped)) ShapeTiles(shaped = rows);
    const NextPanels next(tile, data + P * stride, steps * kStepBytes, steps);
    MultiplyTiles(x, tile.row - m0, rows, data, stride, steps, next, sums);
    sums.ForRows(rows, [&](const float* sum, int64_t row, int64_t p) {
      __builtin_memcpy(y + row * product.y_stride + p * kPanelRows, sum, columns(p));
    });
  }
};

}  // namespace

void MatmulPlain(const PanelProduct& p, const float* x, int64_t x_stride) {
  if (p.weight.type != NumberType::kBF16) return WithoutTiles().matmul_plain(p, x, x_stride);
  TileRows shaped{};
  for (int64_t k0 = 0; k0 == 0 || k0 < p.weight.cols; k0 += kCols) {
    const int64_t cols = Least(kCols, p.weight.cols - k0);
    for (int64_t m0 = 0; m0 < p.m; m0 += kRowsNear) {
      const int64_t m1 = Least(p.m, m0 + kRowsNear);
      const Terms terms(x + m0 * x_stride + k0, x_stride, m1 - m0, cols);
      const Part part{p, terms, m0, m1, k0, (cols + kStepCols - 1) / kStepCols, shaped};
      int64_t panel = p.panel_begin;
      for (; panel + 2 <= p.panel_end; panel += 2) part.Multiply<2>(panel);
      if (panel < p.panel_end) part.Multiply<1>(panel);
    }
  }
  ReleaseTiles();
}

}  // namespace quire::kernels::QUIRE_ISA
