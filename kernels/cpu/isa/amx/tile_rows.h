#pragma once

#include "kernels/cpu/isa/panel.h"

// Matrix products by tiles. A tile is a register that holds rows of a matrix; one instruction multiplies two tiles.
namespace quire::kernels::QUIRE_ISA {

static_assert(kLanes == kPanelRows, "a row of a tile is a number of every row of a panel");

/// The most rows of x in a tile.
inline constexpr int64_t kTileRows = 16;

}  // namespace quire::kernels::QUIRE_ISA
