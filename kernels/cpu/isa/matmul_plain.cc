// Products with weights in fp32, fp16 and bf16.
#include "kernels/cpu/isa/panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

// Sums, a column of the panels and one number of x fit the register file (16, or 32 for AVX-512).
constexpr int kTileRows = 12 / kVecs, kWideTileRows = 12;
// Columns that are summed in one go: a panel of so many stays in the second-level cache, and so do rows of x.
constexpr int64_t kCols = 1024, kRowsInCache = 60;

// Bytes from a 16-bit column to the one that is fetched into the cache meanwhile. The processor does so by itself only
// within a page. Columns of 32 bits come fast enough without; where rows share them, the wait is shared too.
constexpr int64_t kAhead = 4096;

template <NumberType Type>
struct Column;
template <>
struct Column<NumberType::kF32> {
  static constexpr int64_t kBytes = 4;
  static Vec Get(const std::byte* p) { return LoadAs<Vec>(p); }
};
template <>
struct Column<NumberType::kF16> {
  static constexpr int64_t kBytes = 2;
  static Vec Get(const std::byte* p) { return HalfToFloat(LoadAs<ShortVec>(p)); }
};
template <>
struct Column<NumberType::kBF16> {
  static constexpr int64_t kBytes = 2;
  static Vec Get(const std::byte* p) { return BFloatToFloat(LoadAs<ShortVec>(p)); }
};

/// panel_bytes: of a whole panel.
template <NumberType Type, int MT, int V>
void Accumulate(const float* x, int64_t x_stride, const std::byte* panel, int64_t cols, int64_t panel_bytes,
                TileSums<MT, V>& to) {
  TileSums<MT, V> sums = to;  // whose address nobody knows: registers
  constexpr int64_t kBytes = Column<Type>::kBytes;
  const int64_t next_panel = panel_bytes - cols * kPanelRows * kBytes;  // from the end of these columns
  for (int64_t k = 0; k < cols; ++k, panel += kPanelRows * kBytes) {
    Vec w[V];
    if constexpr (MT == 1 && kBytes == 2)
      __builtin_prefetch(panel + kAhead + (k < cols - kAhead / (kPanelRows * kBytes) ? 0 : next_panel));
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      w[v] = Column<Type>::Get(panel + v / kVecs * panel_bytes + v % kVecs * kLanes * kBytes);
    });
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const Vec one = Splat(x[i * x_stride + k]);
      Unrolled<V>([&](auto v) QUIRE_INLINE { sums.sum[i][v] = MulAdd(w[v], one, sums.sum[i][v]); });
    });
  }
  to = sums;
}

template <NumberType Type>
void MatmulOf(const PanelProduct& p, const float* x, int64_t x_stride) {
  const int64_t panel_bytes = kPanelRows * Column<Type>::kBytes * p.weight.cols;
  int64_t k0 = 0;
  do {
    const int64_t cols = Least(kCols, p.weight.cols - k0);
    ForTiles<kTileRows, kWideTileRows>(
        p, k0 == 0, kRowsInCache, [&]<int MT, int V>(int64_t row, int64_t panel, TileSums<MT, V>& sums) QUIRE_INLINE {
          const std::byte* data = p.weight.data + panel * panel_bytes + k0 * kPanelRows * Column<Type>::kBytes;
          Accumulate<Type>(x + row * x_stride + k0, x_stride, data, cols, panel_bytes, sums);
        });
    k0 += kCols;
  } while (k0 < p.weight.cols);
}

}  // namespace

void MatmulPlain(const PanelProduct& p, const float* x, int64_t x_stride) {
  switch (p.weight.type) {
    case NumberType::kF32:
      return MatmulOf<NumberType::kF32>(p, x, x_stride);
    case NumberType::kF16:
      return MatmulOf<NumberType::kF16>(p, x, x_stride);
    default:
      return MatmulOf<NumberType::kBF16>(p, x, x_stride);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
