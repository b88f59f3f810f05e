// Products of quantised weights by AMX tiles. A block's integer sums are exact, so the results have the same bits as
// with VNNI.
#include "kernels/cpu/isa/amx/tile_rows.h"
#include "kernels/cpu/isa/next_panels.h"
#include "kernels/cpu/isa/panel_quads.h"
#include "kernels/cpu/isa/quantized_panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// Bytes of a number of x; each is multiplied separately. For 16-bit numbers: the upper byte (signed), then the lower
/// byte.
template <class T>
constexpr int kParts = sizeof(T);

/// Rows of x that stay in the second-level cache beside panels.
template <class T>
constexpr int64_t kRowsNear = 128 / kParts<T>;

constexpr int64_t kBlockBytes = kQuantBlock, kCellBytes = sizeof(CellVec);

// Tile registers: kSum: sums of each part with each panel; kX: a part of x; kW: a panel.
constexpr int kSum = 0, kX = 4, kW = 6;

/// A part of x (some rows and blocks) as bytes, in the order of the weights' quads.
template <class T>
class RowBytes;

template <>
class RowBytes<int8_t> {
 public:
  RowBytes(const IntegerRows<int8_t>& x, int64_t row, int64_t, int64_t block, int64_t)
      : values_(x.values + row * x.cols + block * kQuantBlock), stride_(x.cols) {}

  const int8_t* At(int64_t row, int64_t block, int) const { return values_ + row * stride_ + block * kQuantBlock; }
  int64_t stride() const { return stride_; }  // bytes between rows

 private:
  const int8_t* values_;
  int64_t stride_;
};

template <>
class RowBytes<int16_t> {
 public:
  RowBytes(const IntegerRows<int16_t>& x, int64_t row, int64_t rows, int64_t block, int64_t blocks) {
    for (int64_t i = 0; i < rows; ++i) {
      const int16_t* from = x.values + (row + i) * x.cols + block * kQuantBlock;
      for (int64_t b = 0; b < blocks; ++b, from += kQuantBlock) Split(from, bytes_[b][i]);
    }
  }

  const int8_t* At(int64_t row, int64_t block, int part) const { return bytes_[block][row][part]; }
  int64_t stride() const { return sizeof(bytes_[0][0]); }

 private:
  static void Split(const int16_t* from, int8_t (&to)[2][kBlockBytes]) {
    const SignedBytes16 order = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
    for (int64_t i = 0; i < kBlockBytes; i += 16) {
      const auto numbers = LoadAs<SignedShorts16>(from + i);
      const SignedBytes16 parts[] = {__builtin_convertvector(numbers >> 8, SignedBytes16),
                                     __builtin_convertvector(numbers, SignedBytes16)};
      for (int part = 0; part < 2; ++part) {
        const SignedBytes16 arranged = __builtin_shuffle(parts[part], order);
        __builtin_memcpy(to[part] + i, &arranged, sizeof(arranged));
      }
    }
  }

  int8_t bytes_[kBlocks][kRowsNear<int16_t>][2][kBlockBytes];
};

void ShapeTiles(int64_t rows) {
  TileShapes shapes{};
  for (int i = 0; i < kW; ++i) shapes.rows[i] = static_cast<uint8_t>(rows);
  for (int i = kSum; i < kX; ++i) shapes.bytes[i] = kCellBytes;
  for (int i = kX; i < kW; ++i) shapes.bytes[i] = kBlockBytes;
  for (int i = kW; i < 8; ++i) {
    shapes.rows[i] = kQuads;
    shapes.bytes[i] = kCellBytes;
  }
  SetTiles(shapes);
}

/// A block's integer sums of a tile of rows with each of P panels.
template <class T, int P>
struct BlockSums {
  alignas(64) int32_t of[kParts<T>][P][kTileRows][kLanes];

  /// Computes the sums from the rows' bytes x and the weights w. Panels are `panel_bytes` apart; the rows of a panel's
  /// quads are `quad_bytes` apart.
  QUIRE_INLINE void Multiply(const RowBytes<T>& x, int64_t row, int64_t block, const std::byte* w, int64_t panel_bytes,
                             int64_t quad_bytes) {
    Unrolled<P>([&](auto p) QUIRE_INLINE { LoadTile<kW + p>(w + p * panel_bytes, quad_bytes); });
    Unrolled<kParts<T>>([&](auto part) QUIRE_INLINE {
      constexpr int kPart = decltype(part)::kValue;
      LoadTile<kX + kPart>(x.At(row, block, kPart), x.stride());
      Unrolled<P>([&](auto p) QUIRE_INLINE {
        constexpr int kTile = kSum + 2 * kPart + decltype(p)::kValue;
        ClearTile<kTile>();
        if constexpr (kPart == 0) {
          AddSignedBytes<kTile, kX + kPart, kW + p>();
        } else {
          AddUnsignedBytes<kTile, kX + kPart, kW + p>();
        }
        StoreTile<kTile>(of[kPart][p], sizeof(of[0][0][0]));
      });
    });
  }

  QUIRE_INLINE IntVec Get(int p, int64_t row) const {
    const auto sum = LoadAs<IntVec>(of[0][p][row]);
    if constexpr (kParts<T> == 1) return sum;
    return (sum << 8) + LoadAs<IntVec>(of[kParts<T> - 1][p][row]);
  }
};

/// A range of blocks of P weight panels, in the stored layout and in the layout of AMX tiles.
template <NumberType Type, int P>
class Panels {
 public:
  /// `room`: memory for unpacked nibbles.
  Panels(const std::byte* data, int64_t stride, int64_t blocks, std::byte* room)
      : blocks_{data, stride}, cells_(data + kHeadBytes), panel_bytes_(stride) {
    if constexpr (!Block<Type>::kIsBytes) {
      PanelBlocks from = blocks_;
      for (int64_t b = 0; b < blocks; ++b, from.data += Block<Type>::kBytes)
        UnpackQuads<Type, P>(from, room + b * kUnpackedBytes);
      cells_ = room;
      panel_bytes_ = kCellBytes;
    }
  }

  template <class T>
  QUIRE_INLINE void Multiply(const RowBytes<T>& x, int64_t row, int64_t block, BlockSums<T, P>& sums) const {
    sums.Multiply(x, row, block, cells_ + block * kStep, panel_bytes_, kIsUnpacked ? P * kCellBytes : kCellBytes);
  }

  /// Scales a block's integer sums of `rows` rows of x from first_row on, and adds them to `sums`.
  template <class T>
  QUIRE_INLINE void Add(const IntegerRows<T>& x, int64_t first_row, int64_t rows, int64_t x_block, int64_t block,
                        const BlockSums<T, P>& products, TileSums<1, P>* sums) const {
    const PanelBlocks at{blocks_.data + block * Block<Type>::kBytes, blocks_.stride};
    Vec d[P], m[P] = {};
    Unrolled<P>([&](auto p) QUIRE_INLINE {
      d[p] = Block<Type>::Head(at, 0, p);
      if constexpr (Block<Type>::kHasMinimum) m[p] = Block<Type>::Head(at, 1, p);
    });
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first_row + i, scale = row * (x.cols / kQuantBlock) + x_block;
      const IntVec begin = BeginWith<OffsetOf<Type>(UnpackedBlocks{})>(x, row, x_block);
      Unrolled<P>([&](auto p) QUIRE_INLINE {
        AddScaled<Type>(x, scale, products.Get(p, i) + begin, d[p], m[p], sums[i].sum[0][p]);
      });
    }
  }

 private:
  static constexpr bool kIsUnpacked = !Block<Type>::kIsBytes;
  static constexpr int64_t kHeadBytes = Block<Type>::kHeadBytes, kUnpackedBytes = P * kQuads * kCellBytes;
  static constexpr int64_t kStep = kIsUnpacked ? kUnpackedBytes : Block<Type>::kBytes;

  PanelBlocks blocks_;
  const std::byte* cells_;
  int64_t panel_bytes_;
};

/// The rows and blocks that one call multiplies.
template <NumberType Type, class T>
struct Part {
  const PanelProduct& product;
  const IntegerRows<T>& x;
  const RowBytes<T>& bytes;  // bytes of rows m0 on
  int64_t m0, m1;            // rows of x
  int64_t b0, count;         // first block, number of blocks
  std::byte* room;
  int64_t& shaped;  // number of rows for which the registers are shaped

  template <int P>
  void Multiply(int64_t panel) const {
    constexpr int64_t kBytes = Block<Type>::kBytes;
    const int64_t stride = product.weight.cols / kQuantBlock * kBytes;
    const std::byte* data = product.weight.data + panel * stride + b0 * kBytes;
    const Panels<Type, P> panels(data, stride, count, room);
    const int64_t columns = Least(P * kPanelRows, product.weight.rows - panel * kPanelRows);
    const int64_t tiles = (m1 - m0 + kTileRows - 1) / kTileRows, most = (m1 - m0 + tiles - 1) / tiles;
    for (int64_t i = 0, row = m0; row < m1; ++i, row += most) {
      const int64_t rows = Least(most, m1 - row);
      if (rows != shaped) ShapeTiles(shaped = rows);
      float* y = product.y + row * product.y_stride + panel * kPanelRows;
      TileSums<1, P> sums[kTileRows];
      for (int64_t r = 0; r < rows; ++r) {
        b0 == 0 ? sums[r].Clear() : sums[r].Load(y + r * product.y_stride, product.y_stride, columns);
      }
      const Tile tile{row, panel, i, tiles, panel == product.panel_begin, panel + P >= product.panel_end};
      NextPanels next(tile, data + P * stride, count * kBytes, count);
      // The products of a block run while the sums of the previous block are scaled.
      BlockSums<T, P> products[2];
      if (count > 0) panels.Multiply(bytes, row - m0, 0, products[0]);
      for (int64_t b = 0; b < count; ++b) {
        next.template Fetch<P>(stride);
        if (b + 1 < count) panels.Multiply(bytes, row - m0, b + 1, products[(b + 1) % 2]);
        panels.Add(x, row, rows, b0 + b, b, products[b % 2], sums);
      }
      for (int64_t r = 0; r < rows; ++r) sums[r].Store(y + r * product.y_stride, product.y_stride, columns);
    }
  }
};

template <NumberType Type, class T>
void MatmulOf(const PanelProduct& p, const IntegerRows<T>& x) {
  alignas(64) std::byte room[Block<Type>::kIsBytes ? 1 : 2 * kBlocks * kQuads * kCellBytes];
  const int64_t blocks = p.weight.cols / kQuantBlock;
  int64_t shaped = 0;
  for (int64_t b0 = 0; b0 == 0 || b0 < blocks; b0 += kBlocks) {
    const int64_t count = Least(blocks - b0, kBlocks);
    for (int64_t m0 = 0; m0 < p.m; m0 += kRowsNear<T>) {
      const int64_t m1 = Least(p.m, m0 + kRowsNear<T>);
      const RowBytes<T> bytes(x, m0, m1 - m0, b0, count);
      const Part<Type, T> part{p, x, bytes, m0, m1, b0, count, room, shaped};
      int64_t panel = p.panel_begin;
      for (; panel + 2 <= p.panel_end; panel += 2) part.template Multiply<2>(panel);
      if (panel < p.panel_end) part.template Multiply<1>(panel);
    }
  }
  ReleaseTiles();
}

/// The least number of rows of x for which tiles are faster: half a tile.
constexpr int64_t kLeastTileRows = 8;

}  // namespace

void MatmulInt8(const PanelProduct& p, const IntegerRows<int8_t>& x) {
  if (p.m < kLeastTileRows) return WithoutTiles().matmul_int8(p, x);
  WithType(p.weight.type, [&]<NumberType Type>() { MatmulOf<Type>(p, x); });
}

void MatmulInt16(const PanelProduct& p, const IntegerRows<int16_t>& x) {
  if (p.m < kLeastTileRows) return WithoutTiles().matmul_int16(p, x);
  WithType(p.weight.type, [&]<NumberType Type>() { MatmulOf<Type>(p, x); });
}

}  // namespace quire::kernels::QUIRE_ISA
