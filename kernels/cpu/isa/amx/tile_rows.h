#pragma once

#include "kernels/cpu/isa/panel.h"

// Products by tiles: registers of rows, of which an instruction multiplies two with one another.
namespace quire::kernels::QUIRE_ISA {

static_assert(kLanes == kPanelRows, "a row of a tile is a number of every row of a panel");

/// Rows of x of a tile at most.
inline constexpr int64_t kTileRows = 16;

}  // namespace quire::kernels::QUIRE_ISA
