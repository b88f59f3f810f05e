#pragma once

#include <cstring>

#include "kernels/cpu/isa/table.h"
#include "tests/kernels/intrinsics_plainbytes.h"

// Computes AMX's tiles by plain loops, for tests on processors without AMX. Intel's Software Developer's Manual, volume
// 2, defines the operations. This instruction set extends the plain one with products of bytes. A use of tiles that the
// processor would refuse ends the test.
namespace quire::kernels {

namespace plainbytes {
const IsaTable& Table();
}

namespace QUIRE_ISA {

inline const IsaTable& WithoutTiles() { return plainbytes::Table(); }

struct TileShapes {
  uint8_t rows[8];
  uint16_t bytes[8];
};

struct PlainTiles {
  TileShapes shapes;
  bool are_set;
  std::byte data[8][16][64];

  void Require(bool holds) const {
    if (!are_set || !holds) __builtin_trap();
  }
};
inline thread_local PlainTiles plain_tiles{};

inline void SetTiles(const TileShapes& shapes) {
  plain_tiles = {shapes, true, {}};
  for (int i = 0; i < 8; ++i) {
    const bool is_empty = shapes.rows[i] == 0;
    plain_tiles.Require(shapes.rows[i] <= 16 && shapes.bytes[i] <= 64 && (shapes.bytes[i] == 0) == is_empty);
  }
}
inline void ReleaseTiles() { plain_tiles.are_set = false; }

template <int tile>
inline void LoadTile(const void* from, int64_t stride) {
  const TileShapes& shapes = plain_tiles.shapes;
  plain_tiles.Require(shapes.rows[tile] > 0);
  std::memset(plain_tiles.data[tile], 0, sizeof(plain_tiles.data[tile]));
  for (int i = 0; i < shapes.rows[tile]; ++i)
    std::memcpy(plain_tiles.data[tile][i], static_cast<const std::byte*>(from) + i * stride, shapes.bytes[tile]);
}
template <int tile>
inline void StoreTile(void* to, int64_t stride) {
  const TileShapes& shapes = plain_tiles.shapes;
  plain_tiles.Require(shapes.rows[tile] > 0);
  for (int i = 0; i < shapes.rows[tile]; ++i)
    std::memcpy(static_cast<std::byte*>(to) + i * stride, plain_tiles.data[tile][i], shapes.bytes[tile]);
}
template <int tile>
inline void ClearTile() {
  plain_tiles.Require(plain_tiles.shapes.rows[tile] > 0);
  std::memset(plain_tiles.data[tile], 0, sizeof(plain_tiles.data[tile]));
}

/// Calls add(total, x, w, bytes) for every lane of the sum, with a row of x and the lane's bytes of w: four bytes for
/// each row of w.
template <int sum, int x, int w, class Sum, class Add>
inline void ForLanes(const Add& add) {
  PlainTiles& tiles = plain_tiles;
  const TileShapes& shapes = tiles.shapes;
  tiles.Require(shapes.rows[sum] > 0 && shapes.rows[sum] == shapes.rows[x] && shapes.bytes[sum] == shapes.bytes[w] &&
                shapes.bytes[x] == 4 * shapes.rows[w]);
  for (int n = 0; n < shapes.bytes[sum] / 4; ++n) {
    std::byte of_w[64];
    for (int k = 0; k < shapes.rows[w]; ++k) std::memcpy(of_w + 4 * k, &tiles.data[w][k][4 * n], 4);
    for (int m = 0; m < shapes.rows[sum]; ++m) {
      Sum total;
      std::memcpy(&total, &tiles.data[sum][m][4 * n], 4);
      add(total, tiles.data[x][m], of_w, shapes.bytes[x]);
      std::memcpy(&tiles.data[sum][m][4 * n], &total, 4);
    }
  }
}

template <int sum, int x, int w, class X>
inline void AddBytes() {
  ForLanes<sum, x, w, int32_t>([](int32_t& total, const std::byte* of_x, const std::byte* of_w, int bytes) {
    for (int i = 0; i < bytes; ++i) total += static_cast<X>(of_x[i]) * static_cast<uint8_t>(of_w[i]);
  });
}
template <int sum, int x, int w>
inline void AddSignedBytes() {
  AddBytes<sum, x, w, int8_t>();
}
template <int sum, int x, int w>
inline void AddUnsignedBytes() {
  AddBytes<sum, x, w, uint8_t>();
}
template <int sum, int x, int w>
inline void AddBFloats() {
  ForLanes<sum, x, w, float>([](float& total, const std::byte* of_x, const std::byte* of_w, int bytes) {
    float sums[2] = {};
    for (int i = 0; i < bytes / 2; ++i) {
      float a = 0, b = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&a) + 2, of_x + 2 * i, 2);
      std::memcpy(reinterpret_cast<std::byte*>(&b) + 2, of_w + 2 * i, 2);
      sums[i % 2] += a * b;
    }
    total += sums[0] + sums[1];
  });
}

}  // namespace QUIRE_ISA
}  // namespace quire::kernels
