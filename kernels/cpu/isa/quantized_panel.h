#pragma once

#include "kernels/cpu/isa/fetch.h"
#include "kernels/cpu/isa/next_panels.h"
#include "kernels/cpu/isa/panel_block.h"

// The loop over blocks of quantised products, for 16-bit and 8-bit x.
namespace quire::kernels::QUIRE_ISA {

/// The number of blocks that are summed at a time. A panel of this many blocks stays in the second-level cache beside
/// kRowsInCache rows of x.
inline constexpr int64_t kBlocks = 32, kRowsInCache = 120;
/// Tile shapes for which the sums, the integer sums, the weights of some columns and a number of x fit into the
/// register file (16 registers, or 32 with AVX-512). Few rows need no special shape, because each block starts new
/// chains of additions.
struct IntegerTiles {
  static constexpr int kRows = 8 / kVecs, kWideRows = 6, kLeastWideRows = 6, kFewRows = 0;
};
/// The smallest number of rows of x for which nibbles are unpacked once instead of in each tile. Bytes are never
/// unpacked, because loading the unpacked form would take as long.
inline constexpr int64_t kLeastUnpackedRows = 24;

/// The prefetch distance, in blocks, within the first panels. NextPanels has prefetched later panels.
inline constexpr int64_t kAhead = 8;

/// Calls add(first row of the tile, number of the block, weights of the block, sums) for each tile of x and each block
/// of 32 columns. If `unpacks`, unpack.operator()<V>(weights, room) first writes unpacked weights, which `add` gets.
template <NumberType Type, bool unpacks, int unpacked_bytes, class Unpack, class Add>
void ForBlocks(const PanelProduct& p, const Unpack& unpack, const Add& add) {
  constexpr int64_t kBytes = Block<Type>::kBytes;
  alignas(64) std::byte room[unpacks ? kWidePanels * kVecs * kBlocks * unpacked_bytes : 1];
  const int64_t blocks = p.weight.cols / kQuantBlock;
  for (int64_t b0 = 0; b0 == 0 || b0 < blocks; b0 += kBlocks) {
    const int64_t count = Least(blocks - b0, kBlocks);
    ForTiles<IntegerTiles>(
        p, b0 == 0, kRowsInCache, [&]<int MT, int V>(const Tile& tile, TileSums<MT, V>& sums) QUIRE_INLINE {
          constexpr int kPanels = V / kVecs;
          UnpackedBlocks w = {{p.weight.data + (tile.panel * blocks + b0) * kBytes, blocks * kBytes}, room};
          NextPanels next(tile, w.data + kPanels * w.stride, count * kBytes, count);
          if constexpr (unpacks) {
            if (tile.index == 0) {
              PanelBlocks from = w;
              for (int64_t b = 0; b < count; ++b, from.data += kBytes)
                unpack.template operator()<V>(from, room + b * V * unpacked_bytes);
            }
          }
          const bool fetches = !unpacks && tile.panels_begin && tile.index == 0;
          for (int64_t b = 0; b < count; ++b, w.data += kBytes, w.cells += V * unpacked_bytes) {
            next.Fetch<kPanels>(w.stride);
            for (int i = 0; fetches && i < kPanels; ++i) Fetch(w.OfVector(i * kVecs) + kAhead * kBytes, kBytes);
            if constexpr (unpacks) {
              add(tile.row, b0 + b, w, sums);
            } else {
              add(tile.row, b0 + b, static_cast<const PanelBlocks&>(w), sums);
            }
          }
        });
  }
}

/// Calls run.template operator()<type>() for a packed, quantised type known only at run time.
template <class Run>
void WithType(NumberType type, const Run& run) {
  switch (type) {
    case NumberType::kQ8_0:
      return run.template operator()<NumberType::kQ8_0>();
    case NumberType::kQ4_0:
      return run.template operator()<NumberType::kQ4_0>();
    default:
      return run.template operator()<NumberType::kQ4_1>();
  }
}

}  // namespace quire::kernels::QUIRE_ISA
