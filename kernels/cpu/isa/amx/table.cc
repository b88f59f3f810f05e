#include "kernels/cpu/isa/table.h"

#include "kernels/cpu/isa/amx/tile_rows.h"

namespace quire::kernels::QUIRE_ISA {

/// Runs only the instructions that multiply, on two tiles of 16 rows of x and two panels, in blocks of 32 columns.
/// Returns the number of operations. kMultiplyAdd uses no tiles.
double RunPeak(Arithmetic arithmetic, int64_t rounds) {
  if (arithmetic == Arithmetic::kMultiplyAdd) return WithoutTiles().run_peak(arithmetic, rounds);
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = i < 6 ? kTileRows : kQuantBlock / 4;
    shapes.bytes[i] = i == 4 || i == 5 ? kQuantBlock : 4 * kLanes;
  }
  SetTiles(shapes);
  const bool of_bytes = arithmetic == Arithmetic::kInt8;
  const int64_t instructions = rounds / 8;  // a tile instruction does far more operations than a vector instruction
  for (int64_t i = 0; i < instructions; i += 4) {
    AddSignedBytes<0, 4, 6>();
    AddSignedBytes<1, 4, 7>();
    of_bytes ? AddSignedBytes<2, 5, 6>() : AddUnsignedBytes<2, 5, 6>();
    of_bytes ? AddSignedBytes<3, 5, 7>() : AddUnsignedBytes<3, 5, 7>();
  }
  ReleaseTiles();
  const auto done = static_cast<double>(instructions * 2 * kTileRows * kQuantBlock * kLanes);
  return of_bytes ? done : done / 2;
}

const IsaTable& Table() {
  static const IsaTable table = [] {
    IsaTable all = WithoutTiles();
    all.matmul_plain = MatmulPlain;
    all.matmul_int16 = MatmulInt16;
    all.matmul_int8 = MatmulInt8;
    all.attention = AttentionTile;
    all.attention_scratch = AttentionScratch;
    all.run_peak = RunPeak;
    return all;
  }();
  return table;
}

}  // namespace quire::kernels::QUIRE_ISA
