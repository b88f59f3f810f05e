#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr int kQuantBlock = 32;

void DecodeQ8(const std::byte* block, float* out) {
  const float d = HalfToFloat(LoadAs<uint16_t>(block));
  for (int half = 0; half < kQuantBlock; half += 16) {
    Vec q[16 / kLanes];
    BytesToFloats(LoadAs<SignedBytes16>(block + 2 + half), q);
    for (int i = 0; i < 16 / kLanes; ++i) Store(out + half + i * kLanes, q[i] * d);
  }
}

/// value = q * d + m for both nibble formats (m = -8 d for q4_0, which is exact: 8 is a power of two).
void DecodeNibbles(const std::byte* nibbles, float d, float m, float* out) {
  const auto packed = LoadAs<Bytes16>(nibbles);
  Vec low[16 / kLanes], high[16 / kLanes];
  BytesToFloats(packed & 15, low);
  BytesToFloats(packed >> 4, high);
  for (int i = 0; i < 16 / kLanes; ++i) {
    Store(out + i * kLanes, low[i] * d + m);
    Store(out + 16 + i * kLanes, high[i] * d + m);
  }
}

template <Vec (*Convert)(ShortVec), float (*ConvertOne)(uint16_t)>
void DecodeShorts(const std::byte* data, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(out + i, Convert(LoadAs<ShortVec>(data + 2 * i)));
  for (; i < count; ++i) out[i] = ConvertOne(LoadAs<uint16_t>(data + 2 * i));
}

float BFloatToFloatOne(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

/// y tile [MT, NT] (+)= x tile [MT, k] * w tile [NT, k]^T. Each output has one vector accumulator that walks along k,
/// whatever the tile's shape: that is what makes the result independent of the batch.
template <int MT, int NT>
void Tile(const float* x, int64_t x_stride, const float* w, int64_t w_stride, int64_t k, bool add, float* y,
          int64_t y_stride) {
  Vec acc[MT][NT] = {};
  const auto step = [&](auto load) {
    Vec wv[NT];
    for (int j = 0; j < NT; ++j) wv[j] = load(w + j * w_stride);
    for (int i = 0; i < MT; ++i) {
      const Vec xv = load(x + i * x_stride);
      for (int j = 0; j < NT; ++j) acc[i][j] += xv * wv[j];
    }
  };
  int64_t kk = 0;
  for (; kk + kLanes <= k; kk += kLanes) step([kk](const float* p) { return Load(p + kk); });
  if (kk < k) step([kk, k](const float* p) { return LoadPart(p + kk, k - kk); });
  for (int i = 0; i < MT; ++i) {
    for (int j = 0; j < NT; ++j) {
      float* out = y + i * y_stride + j;
      *out = (add ? *out : 0.0f) + Sum(acc[i][j]);
    }
  }
}

// Register tiles: MT * NT accumulators, NT weight vectors and one x vector fit the register file (16, or 32 for
// AVX-512).
constexpr int kTileRows = kLanes == 16 ? 6 : 4;
constexpr int kTileCols = kLanes == 16 ? 4 : 3;
// A single x row has registers to spare: more outputs at a time hide the latency of the adds.
constexpr int kSingleRowCols = 8;
static_assert(kPanelRows % kTileCols == 0 && kPanelRows % kSingleRowCols == 0);

using TileFunction = void (*)(const float*, int64_t, const float*, int64_t, int64_t, bool, float*, int64_t);

template <int MT>
TileFunction TileOfCols(int64_t cols) {
  static_assert(kTileCols <= 4);
  switch (cols) {
    case 1:
      return Tile<MT, 1>;
    case 2:
      return Tile<MT, 2>;
    case 3:
      return Tile<MT, 3>;
    default:
      return Tile<MT, kTileCols>;
  }
}

TileFunction SingleRowTile(int64_t cols) {
  constexpr TileFunction kTiles[] = {Tile<1, 1>, Tile<1, 2>, Tile<1, 3>, Tile<1, 4>,
                                     Tile<1, 5>, Tile<1, 6>, Tile<1, 7>, Tile<1, 8>};
  static_assert(sizeof(kTiles) / sizeof(kTiles[0]) == kSingleRowCols);
  return kTiles[cols - 1];
}

TileFunction TileOf(int64_t rows, int64_t cols) {
  switch (rows) {
    case 1:
      return SingleRowTile(cols);
    case 2:
      return TileOfCols<2>(cols);
    case 3:
      return TileOfCols<3>(cols);
    case 4:
      return TileOfCols<4>(cols);
    case 5:
      return TileOfCols<5>(cols);
    default:
      return TileOfCols<kTileRows>(cols);
  }
}

int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace

void DecodeNumbers(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out) {
  const WeightLayout layout = LayoutOf(weight.type);
  const std::byte* data = weight.data + row * weight.row_bytes + col / layout.block_numbers * layout.block_bytes;
  switch (weight.type) {
    case WeightType::kF32:
      __builtin_memcpy(out, data, static_cast<unsigned long>(count) * sizeof(float));
      return;
    case WeightType::kF16:
      DecodeShorts<HalfToFloat, HalfToFloat>(data, count, out);
      return;
    case WeightType::kBF16:
      DecodeShorts<BFloatToFloat, BFloatToFloatOne>(data, count, out);
      return;
    case WeightType::kQ8_0:
    case WeightType::kQ4_0:
    case WeightType::kQ4_1:
      break;
  }
  const std::byte* end = data + count / kQuantBlock * layout.block_bytes;
  if (weight.type == WeightType::kQ8_0) {
    for (; data != end; data += layout.block_bytes, out += kQuantBlock) DecodeQ8(data, out);
  } else if (weight.type == WeightType::kQ4_0) {
    for (; data != end; data += layout.block_bytes, out += kQuantBlock) {
      const float d = HalfToFloat(LoadAs<uint16_t>(data));
      DecodeNibbles(data + 2, d, -8.0f * d, out);
    }
  } else {
    for (; data != end; data += layout.block_bytes, out += kQuantBlock) {
      DecodeNibbles(data + 4, HalfToFloat(LoadAs<uint16_t>(data)), HalfToFloat(LoadAs<uint16_t>(data + 2)), out);
    }
  }
}

void MatmulRows(const MatmulParams& p, int64_t row_begin, int64_t row_end, float* panel) {
  const Weight& weight = p.weight;
  if (weight.cols == 0) {  // an empty shard adds nothing
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = row_begin; j < row_end; ++j) p.y[i * p.y_stride + j] = 0.0f;
    }
  }
  for (int64_t k0 = 0; k0 < weight.cols; k0 += kPanelCols) {
    const int64_t k = Min(kPanelCols, weight.cols - k0);
    for (int64_t n0 = row_begin; n0 < row_end; n0 += kPanelRows) {
      const int64_t n = Min(kPanelRows, row_end - n0);
      const float* w = panel;
      int64_t w_stride = k;
      if (weight.type == WeightType::kF32) {  // already fp32: read in place
        w_stride = weight.row_bytes / static_cast<int64_t>(sizeof(float));
        w = reinterpret_cast<const float*>(weight.data) + n0 * w_stride + k0;
      } else {
        for (int64_t j = 0; j < n; ++j) DecodeNumbers(weight, n0 + j, k0, k, panel + j * k);
      }
      for (int64_t i = 0; i < p.m; i += kTileRows) {
        const int64_t rows = Min(kTileRows, p.m - i);
        const int64_t tile_cols = rows == 1 ? kSingleRowCols : kTileCols;
        for (int64_t j = 0; j < n; j += tile_cols) {
          TileOf(rows, Min(tile_cols, n - j))(p.x + i * p.x_stride + k0, p.x_stride, w + j * w_stride, w_stride, k,
                                              k0 != 0, p.y + i * p.y_stride + n0 + j, p.y_stride);
        }
      }
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA
