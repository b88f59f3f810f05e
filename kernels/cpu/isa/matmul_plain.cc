// Computes products with weights in fp32, fp16 and bf16.
#include "kernels/cpu/isa/fetch.h"
#include "kernels/cpu/isa/next_panels.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

// Tile shapes for which the sums, a column of the panels and a number of x fit into the register file (16 registers, or
// 32 with AVX-512).
struct PlainTiles {
  static constexpr int kRows = 12 / kVecs, kWideRows = 12, kLeastWideRows = 2, kFewRows = 1;
};
// The number of columns that are summed at a time. A panel of this many columns stays in the second-level cache beside
// kRowsInCache rows of x.
constexpr int64_t kCols = 1024, kRowsInCache = 60;

// The next panels are prefetched every kStepCols columns. kAhead is the prefetch distance in bytes within the first
// panels.
constexpr int64_t kStepCols = 32, kAhead = 4096;

/// The columns of a panel that are loaded together: two for bf16, one in each half of a lane.
template <NumberType Type>
struct Columns;
template <>
struct Columns<NumberType::kF32> {
  static constexpr int kCount = 1, kBytes = 4;
  static Vec Get(const std::byte* p, int) { return LoadAs<Vec>(p); }
};
template <>
struct Columns<NumberType::kF16> {
  static constexpr int kCount = 1, kBytes = 2;
  static Vec Get(const std::byte* p, int) { return HalfToFloat(LoadAs<ShortVec>(p)); }
};
template <>
struct Columns<NumberType::kBF16> {
  static constexpr int kCount = 2, kBytes = 2;
  static Vec Get(const std::byte* p, int which) {
    const auto both = LoadAs<IntVec>(p);
    return reinterpret_cast<Vec>(which == 0 ? both << 16 : both & static_cast<int32_t>(0xffff0000));
  }
};

/// Adds the products of some columns to a tile's sums. `stride`: bytes between panels.
template <NumberType Type, int MT, int V>
QUIRE_INLINE inline void Accumulate(const float* x, int64_t x_stride, const std::byte* panel, int64_t cols,
                                    int64_t stride, TileSums<MT, V>& sums) {
  constexpr int kCount = Columns<Type>::kCount;
  constexpr int64_t kLoad = kCount * Columns<Type>::kBytes;  // bytes per row of the panel
  const auto add = [&](int64_t k, int which) QUIRE_INLINE {
    Vec w[V];
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      w[v] = Columns<Type>::Get(panel + v / kVecs * stride + v % kVecs * kLanes * kLoad, which);
    });
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const Vec one = Splat(x[i * x_stride + k]);
      Unrolled<V>([&](auto v) QUIRE_INLINE { sums.sum[i][v] = MulAdd(w[v], one, sums.sum[i][v]); });
    });
  };
  int64_t k = 0;
  for (; k + kCount <= cols; k += kCount, panel += kPanelRows * kLoad)
    Unrolled<kCount>([&](auto which) QUIRE_INLINE { add(k + which, which); });
  if (k < cols) add(k, 0);
}

template <NumberType Type>
void MatmulOf(const PanelProduct& p, const float* x, int64_t x_stride) {
  constexpr int64_t kColumnBytes = kPanelRows * Columns<Type>::kBytes;
  const int64_t panel_bytes = PanelBytes(Type, p.weight.cols);
  int64_t k0 = 0;
  do {
    const int64_t cols = Least(kCols, p.weight.cols - k0);
    ForTiles<PlainTiles>(
        p, k0 == 0, kRowsInCache, [&]<int MT, int V>(const Tile& tile, TileSums<MT, V>& to) QUIRE_INLINE {
          constexpr int kPanels = V / kVecs;
          const std::byte* data = p.weight.data + tile.panel * panel_bytes + k0 * kColumnBytes;
          const float* x_row = x + tile.row * x_stride + k0;
          NextPanels next(tile, data + kPanels * panel_bytes, cols * kColumnBytes, (cols + kStepCols - 1) / kStepCols);
          const bool fetches = tile.panels_begin && tile.index == 0;
          TileSums<MT, V> sums = to;  // a local whose address is not taken stays in registers
          for (int64_t k = 0; k < cols; k += kStepCols) {
            next.Fetch<kPanels>(panel_bytes);
            const std::byte* panel = data + k * kColumnBytes;
            for (int i = 0; fetches && i < kPanels; ++i)
              Fetch(panel + i * panel_bytes + kAhead, kStepCols * kColumnBytes);
            Accumulate<Type>(x_row + k, x_stride, panel, Least(kStepCols, cols - k), panel_bytes, sums);
          }
          to = sums;
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
