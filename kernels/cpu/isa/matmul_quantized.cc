// Products with quantised weights: 16-bit integers of x with 4- or 8-bit integers of the weight, exact within a block.
#include "kernels/cpu/isa/panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

typedef uint16_t CellVec
    __attribute__((vector_size(QUIRE_LANES * 4)));  // a pair of cells, of four nibbles each, for each lane

// Integer sums, a column pair of the panel and one of x fit the register file (16, or 32 for AVX-512).
constexpr int kTileRows = 8 / kVecs;
// Blocks that are summed in one go: a panel of so many stays in the second-level cache, and so do rows of x.
constexpr int64_t kBlocks = 32, kRowsInCache = 120;
constexpr int kPairs = kQuantBlock / 2;

/// The integers of a block of a panel. ForPairs calls use(pair, w) for each of its 16 pairs of columns, w[kVecs] being
/// those of all rows.
template <WeightType Type>
struct Block {
  static constexpr bool kHasMinimum = Type == WeightType::kQ4_1;
  static constexpr int64_t kHeadBytes = (kHasMinimum ? 4 : 2) * kPanelRows;
  static constexpr int64_t kBytes = kHeadBytes + kQuantBlock / 2 * kPanelRows;

  template <class Use>
  QUIRE_INLINE static void ForPairs(const std::byte* cells, const Use& use) {
    for (int group = 0; group < kPairs / 4; ++group) {
      CellVec cell[kVecs];
      Unrolled<kVecs>([&](auto v)
                          QUIRE_INLINE { cell[v] = LoadAs<CellVec>(cells + (group * kVecs + v) * sizeof(CellVec)); });
      Unrolled<4>([&](auto j) QUIRE_INLINE {
        PairVec w[kVecs];
        Unrolled<kVecs>([&](auto v) QUIRE_INLINE { w[v] = reinterpret_cast<PairVec>((cell[v] >> (4 * j)) & 15); });
        use(group * 4 + j, w);
      });
    }
  }
};

template <>
struct Block<WeightType::kQ8_0> {
  static constexpr bool kHasMinimum = false;
  static constexpr int64_t kHeadBytes = 2 * kPanelRows;
  static constexpr int64_t kBytes = kHeadBytes + kQuantBlock * kPanelRows;

  template <class Use>
  QUIRE_INLINE static void ForPairs(const std::byte* cells, const Use& use) {
    for (int pair = 0; pair < kPairs; ++pair) {
      PairVec w[kVecs];
      Unrolled<kVecs>([&](auto v) QUIRE_INLINE {
        w[v] = Widen(LoadAs<BytePairs>(cells + (pair * kVecs + v) * sizeof(BytePairs)));
      });
      use(pair, w);
    }
  }
};

/// One block of MT rows of x, which begin at `row`, with one block of a panel.
template <int MT, WeightType Type>
QUIRE_INLINE inline void AddBlock(const QuantizedRows& x, int64_t row, int64_t block, const std::byte* data,
                                  TileSums<MT>& sums) {
  using B = Block<Type>;
  IntVec dot[MT][kVecs] = {};
  const int16_t* values = x.values + row * x.cols + block * kQuantBlock;
  B::ForPairs(data + B::kHeadBytes, [&](int pair, const PairVec(&w)[kVecs]) QUIRE_INLINE {
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      const auto both = reinterpret_cast<PairVec>(IntVec{} + LoadAs<int32_t>(values + i * x.cols + 2 * pair));
      Unrolled<kVecs>([&](auto v) QUIRE_INLINE { AddPairs(dot[i][v], w[v], both); });
    });
  });
  const int64_t blocks = x.cols / kQuantBlock, at = row * blocks + block;
  Unrolled<kVecs>([&](auto v) QUIRE_INLINE {
    const Vec d = HalfToFloat(LoadAs<ShortVec>(data + v * sizeof(ShortVec)));
    Vec m = {};
    if constexpr (B::kHasMinimum) m = HalfToFloat(LoadAs<ShortVec>(data + 2 * kPanelRows + v * sizeof(ShortVec)));
    Unrolled<MT>([&](auto i) QUIRE_INLINE {
      Vec product = __builtin_convertvector(dot[i][v], Vec) * x.scales[at + i * blocks];
      if constexpr (Type == WeightType::kQ4_0) product -= 8 * x.sums[at + i * blocks];
      sums.sum[i][v] += product * d;
      if constexpr (B::kHasMinimum) sums.sum[i][v] += m * x.sums[at + i * blocks];
    });
  });
}

template <WeightType Type>
void MatmulOf(const PanelProduct& p, const QuantizedRows& x) {
  const int64_t blocks = p.weight.cols / kQuantBlock;
  for (int64_t b0 = 0; b0 == 0 || b0 < blocks; b0 += kBlocks) {
    const int64_t b1 = Least(blocks, b0 + kBlocks);
    ForTiles<kTileRows>(p, b0 == 0, kRowsInCache,
                        [&]<int MT>(int64_t row, int64_t panel, TileSums<MT>& sums) QUIRE_INLINE {
                          const std::byte* data = p.weight.data + (panel * blocks + b0) * Block<Type>::kBytes;
                          for (int64_t b = b0; b < b1; ++b, data += Block<Type>::kBytes)
                            AddBlock<MT, Type>(x, row, b, data, sums);
                        });
  }
}

}  // namespace

void QuantizeRow(const float* x, int64_t cols, int16_t* values, float* scales, float* sums) {
  constexpr float kMost = 32767.0f, kLeast = 1e-34f, kGreatest = 1e34f;
  const Vec round = Splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest integer
  for (; cols > 0; cols -= kQuantBlock, x += kQuantBlock, values += kQuantBlock, ++scales, ++sums) {
    Vec largest = {}, not_finite = {};
    for (int i = 0; i < kQuantBlock; i += kLanes) {
      const Vec v = Load(x + i);
      largest = Max(Max(v, -v), largest);
      not_finite += v - v;  // a block that holds infinity or NaN becomes NaN
    }
    const float most = MaxLane(largest), scale = most / kMost + Sum(not_finite);
    *scales = scale;
    if (!(scale > kLeast && scale < kGreatest)) {  // nothing, or nothing that integers can say: 0 or NaN
      __builtin_memset(values, 0, kQuantBlock * sizeof(int16_t));
      *sums = scale - scale;
      continue;
    }
    const Vec inverse = Splat(kMost / most);
    IntVec sum = {};
    for (int i = 0; i < kQuantBlock; i += kLanes) {
      const IntVec v = reinterpret_cast<IntVec>(Load(x + i) * inverse + round) - reinterpret_cast<IntVec>(round);
      sum += v;
      const auto narrow = __builtin_convertvector(v, SignedShortVec);
      __builtin_memcpy(values + i, &narrow, sizeof(narrow));
    }
    int32_t total = 0;
    for (int i = 0; i < kLanes; ++i) total += sum[i];
    *sums = static_cast<float>(total) * scale;
  }
}

void MatmulQuantized(const PanelProduct& p, const QuantizedRows& x) {
  switch (p.weight.type) {
    case WeightType::kQ8_0:
      return MatmulOf<WeightType::kQ8_0>(p, x);
    case WeightType::kQ4_0:
      return MatmulOf<WeightType::kQ4_0>(p, x);
    default:
      return MatmulOf<WeightType::kQ4_1>(p, x);
  }
}

}  // namespace quire::kernels::QUIRE_ISA
