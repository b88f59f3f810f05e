// Computes products of quantised weights by AMX tiles. A block's integer sums are exact, so the results have the same
// bits as with VNNI.
#include "kernels/cpu/isa/amx/tile_rows.h"
#include "kernels/cpu/isa/next_panels.h"
#include "kernels/cpu/isa/panel_quads.h"
#include "kernels/cpu/isa/quantized_panel.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// Number of bytes of a number of x. Each byte is multiplied separately; 16-bit numbers have an upper byte (signed) and
/// a lower byte.
template <class T>
constexpr int kParts = sizeof(T);

/// Rows of x that stay in the second-level cache beside panels.
template <class T>
constexpr int64_t kRowsNear = 128 / kParts<T>;

constexpr int64_t kBlockBytes = kQuantBlock, kCellBytes = sizeof(CellVec);

// Numbers of tile registers. kSum: the sums of either part of x with a panel; kX: the parts of x; kW: a panel. One
// panel is multiplied at a time, because the scaled sums of 16 rows with two panels would not fit into the vector
// registers.
constexpr int kSum = 0, kX = 2, kW = 4;

/// Some rows and blocks of x as bytes, in the order of the weights' quads, which are groups of four columns
/// (panel_quads.h).
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

  int8_t bytes_[kBlocks][kRowsNear<int16_t> + kTileRows][2][kBlockBytes];
};

/// The scales of some rows and blocks, and the other numbers that a block's sums need. For each block, the numbers of
/// all rows are adjacent.
template <class T>
class RowScales {
 public:
  RowScales(const IntegerRows<T>& x, int64_t row, int64_t rows, int64_t block, int64_t blocks) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t from = (row + i) * (x.cols / kQuantBlock) + block;
      for (int64_t b = 0; b < blocks; ++b) {
        scales_[b][i] = x.scales[from + b];
        begins_[b][i] = x.begins[from + b];
        sums_[b][i] = x.sums[from + b];
        if constexpr (sizeof(T) == 1) lifts_[b][i] = x.lifts[from + b];
      }
    }
  }

  /// Returns a block's scales as the scales of rows that consist of one block.
  QUIRE_INLINE IntegerRows<T> OfBlock(int64_t block, int64_t row) {
    float* const lifts = sizeof(T) == 1 ? lifts_[block] + row : nullptr;
    return {nullptr, scales_[block] + row, lifts, begins_[block] + row, sums_[block] + row, kQuantBlock};
  }

 private:
  static constexpr int64_t kRows = kRowsNear<T> + kTileRows;

  float scales_[kBlocks][kRows], sums_[kBlocks][kRows], lifts_[sizeof(T) == 1 ? kBlocks : 1][kRows];
  int32_t begins_[kBlocks][kRows];
};

void ShapeTiles(int64_t rows) {
  TileShapes shapes{};
  for (int i = kSum; i < kW; ++i) {
    shapes.rows[i] = static_cast<uint8_t>(rows);
    shapes.bytes[i] = i < kX ? kCellBytes : kBlockBytes;
  }
  shapes.rows[kW] = kQuads;
  shapes.bytes[kW] = kCellBytes;
  SetTiles(shapes);
}

/// A block's integer sums of R rows with a panel.
template <class T, int R>
struct BlockSums {
  alignas(64) int32_t of[kParts<T>][R][kLanes];

  /// Computes the sums from the rows' bytes `x` and the weights `w`, whose columns are in quads of four.
  QUIRE_INLINE void Multiply(const RowBytes<T>& x, int64_t row, int64_t block, const std::byte* w) {
    LoadTile<kW>(w, kCellBytes);
    Unrolled<kParts<T>>([&](auto part) QUIRE_INLINE { LoadTile<kX + part>(x.At(row, block, part), x.stride()); });
    Unrolled<kParts<T>>([&](auto part) QUIRE_INLINE { ClearTile<kSum + part>(); });
    AddSignedBytes<kSum, kX, kW>();
    if constexpr (kParts<T> == 2) AddUnsignedBytes<kSum + 1, kX + 1, kW>();
    Unrolled<kParts<T>>([&](auto part) QUIRE_INLINE { StoreTile<kSum + part>(of[part], kCellBytes); });
  }

  QUIRE_INLINE IntVec Get(int row) const {
    const auto sum = LoadAs<IntVec>(of[0][row]);
    if constexpr (kParts<T> == 1) return sum;
    return (sum << 8) + LoadAs<IntVec>(of[kParts<T> - 1][row]);
  }
};

/// A range of blocks of a panel, in quads (four columns of every row) for tiles, either as stored or unpacked from
/// nibbles.
template <NumberType Type>
class Panel {
 public:
  /// `room`: memory for unpacked nibbles.
  Panel(const std::byte* data, int64_t blocks, std::byte* room) : data_(data), cells_(data + kHeadBytes) {
    if constexpr (!Block<Type>::kIsBytes) {
      PanelBlocks from{data, 0};
      for (int64_t b = 0; b < blocks; ++b, from.data += Block<Type>::kBytes)
        UnpackQuads<Type, 1>(from, room + b * kUnpackedBytes);
      cells_ = room;
    }
  }

  const std::byte* Quads(int64_t block) const { return cells_ + block * kStep; }

  /// Multiplies a block's integer sums of R rows by the scales in `x`, and adds the results to `sums`.
  template <class T, int R>
  QUIRE_INLINE void Add(const IntegerRows<T>& x, int64_t block, const BlockSums<T, R>& products,
                        TileSums<R, 1>& sums) const {
    const PanelBlocks at{data_ + block * Block<Type>::kBytes, 0};
    const Vec d = Block<Type>::Head(at, 0, 0), m = Block<Type>::kHasMinimum ? Block<Type>::Head(at, 1, 0) : Vec{};
    Unrolled<R>([&](auto i) QUIRE_INLINE {
      const IntVec begin = BeginWith<OffsetOf<Type>(UnpackedBlocks{})>(x, i, 0);
      AddScaled<Type>(x, i, products.Get(i) + begin, d, m, sums.sum[i][0]);
    });
  }

 private:
  static constexpr bool kIsUnpacked = !Block<Type>::kIsBytes;
  static constexpr int64_t kHeadBytes = Block<Type>::kHeadBytes, kUnpackedBytes = kQuads * kCellBytes;
  static constexpr int64_t kStep = kIsUnpacked ? kUnpackedBytes : Block<Type>::kBytes;

  const std::byte *data_, *cells_;
};

Vec LoadColumns(const float* y, int64_t columns) { return columns == kLanes ? Load(y) : LoadPart(y, columns); }
void StoreColumns(float* y, int64_t columns, Vec sums) {
  columns == kLanes ? Store(y, sums)
                    : void(__builtin_memcpy(y, &sums, static_cast<unsigned long>(columns) * sizeof(float)));
}

/// The rows and blocks that one call multiplies, R rows at a time. The last R rows may begin before m0, or overlap the
/// R rows before them. Sums that are computed again because of that are not stored.
template <NumberType Type, class T, int R>
struct Part {
  const PanelProduct& product;
  const RowBytes<T>& bytes;  // bytes of the rows from x0 on; the scales have the same rows
  RowScales<T>& scales;
  int64_t x0, m0, m1;  // rows of x
  int64_t b0, count;   // first block, number of blocks
  std::byte* room;

  void Multiply(int64_t index) const {
    constexpr int64_t kBytes = Block<Type>::kBytes;
    const int64_t stride = product.weight.cols / kQuantBlock * kBytes;
    const std::byte* data = product.weight.data + index * stride + b0 * kBytes;
    const Panel<Type> panel(data, count, room);
    const int64_t columns = Least(kPanelRows, product.weight.rows - index * kPanelRows);
    for (int64_t i = 0, done = m0; done < m1; ++i, done += R) {
      const int64_t row = Least(done, m1 - R);
      float* y = product.y + row * product.y_stride + index * kPanelRows;
      FetchForWriting(y, product.y_stride, R, columns);
      TileSums<R, 1> sums;
      Unrolled<R>([&](auto r) QUIRE_INLINE {
        sums.sum[r][0] = b0 == 0 ? Vec{} : LoadColumns(y + r * product.y_stride, columns);
      });
      const Tile tile{
          row, index, i, (m1 - m0 + R - 1) / R, index == product.panel_begin, index + 1 == product.panel_end};
      NextPanels next(tile, data + stride, count * kBytes, count);
      // The products of a block are computed while the sums of the previous block are scaled.
      BlockSums<T, R> products[2];
      if (count > 0) products[0].Multiply(bytes, row - x0, 0, panel.Quads(0));
      for (int64_t b = 0; b < count; ++b) {
        next.template Fetch<1>(stride);
        if (b + 1 < count) products[(b + 1) % 2].Multiply(bytes, row - x0, b + 1, panel.Quads(b + 1));
        panel.Add(scales.OfBlock(b, row - x0), b, products[b % 2], sums);
      }
      Unrolled<R>([&](auto r) QUIRE_INLINE {
        if (row + r >= done) StoreColumns(y + r * product.y_stride, columns, sums.sum[r][0]);
      });
    }
  }
};

template <NumberType Type, class T, int R>
void MultiplyRows(const PanelProduct& p, const IntegerRows<T>& x) {
  alignas(64) std::byte room[Block<Type>::kIsBytes ? 1 : kBlocks * kQuads * kCellBytes];
  const int64_t blocks = p.weight.cols / kQuantBlock;
  ShapeTiles(R);
  for (int64_t b0 = 0; b0 == 0 || b0 < blocks; b0 += kBlocks) {
    const int64_t count = Least(blocks - b0, kBlocks);
    for (int64_t m0 = 0; m0 < p.m; m0 += kRowsNear<T>) {
      const int64_t m1 = Least(p.m, m0 + kRowsNear<T>), x0 = Least(m0, m1 - R);
      const RowBytes<T> bytes(x, x0, m1 - x0, b0, count);
      RowScales<T> scales(x, x0, m1 - x0, b0, count);
      const Part<Type, T, R> part{p, bytes, scales, x0, m0, m1, b0, count, room};
      for (int64_t panel = p.panel_begin; panel < p.panel_end; ++panel) part.Multiply(panel);
    }
  }
  ReleaseTiles();
}

/// The smallest number of rows of x for which AMX is faster than vector instructions: half of a tile's rows.
constexpr int kLeastTileRows = 8;

template <NumberType Type, class T>
void MatmulOf(const PanelProduct& p, const IntegerRows<T>& x) {
  p.m < kTileRows ? MultiplyRows<Type, T, kLeastTileRows>(p, x) : MultiplyRows<Type, T, kTileRows>(p, x);
}

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
