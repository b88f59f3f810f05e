#pragma once

#include "kernels/cpu/isa/intrinsics_avx512vnni.h"
#include "kernels/cpu/isa/table.h"

// AMX has eight tile registers, each of up to 16 rows of 64 bytes. Instructions name the registers; compilers do not
// allocate them.
namespace quire::kernels::QUIRE_ISA {

/// Returns the table for all functions that do not multiply by tiles.
inline const IsaTable& WithoutTiles() { return avx512vnni::Table(); }

/// The configuration of tile registers: rows per register, and bytes per row.
struct TileShapes {
  uint8_t rows[8];
  uint16_t bytes[8];
};

inline void SetTiles(const TileShapes& shapes) {
  struct alignas(64) {
    uint8_t palette = 1, first_row = 0, unused[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } setting;
  static_assert(sizeof(setting) == 64);
  __builtin_memcpy(setting.bytes, shapes.bytes, sizeof(shapes.bytes));
  __builtin_memcpy(setting.rows, shapes.rows, sizeof(shapes.rows));
  __asm__ volatile("ldtilecfg %0" : : "m"(setting));
}

/// Releases the tile registers. Until then, the operating system saves and restores them at every switch of threads.
inline void ReleaseTiles() { __asm__ volatile("tilerelease" : : : "memory"); }

/// Loads a tile whose rows are `stride` bytes apart.
template <int tile>
inline void LoadTile(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void StoreTile(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void ClearTile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}

// The three functions below compute sum[m, n] += sum over k of the products of the k-th four bytes of x[m] and the four
// bytes in lane n of w's row k. In the two integer functions, x has signed or unsigned bytes, as the name says, and w
// has unsigned bytes. In the function for bf16, four bytes are two numbers, in x and in w.
template <int sum, int x, int w>
inline void AddSignedBytes() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(x), "i"(w));
}
template <int sum, int x, int w>
inline void AddUnsignedBytes() {
  __asm__ volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(x), "i"(w));
}
template <int sum, int x, int w>
inline void AddBFloats() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(x), "i"(w));
}

}  // namespace quire::kernels::QUIRE_ISA
