#include "kernels/cuda/prefill/prefill_attention_plan.h"

#include <algorithm>
#include <tuple>

#include "kernels/check.h"

namespace quire::kernels {

namespace {

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Positions for a thread block, so that all of them have about as many; 0 where tiles are enough for the device.
int64_t PositionsForEach(std::span<const PrefillTile> tiles, const PrefillSplit& split) {
  if (static_cast<int64_t>(tiles.size()) >= split.MaxSlots()) return 0;
  int64_t positions = 0;
  for (const PrefillTile& tile : tiles) positions += tile.num_keys;
  const int64_t each = (positions + split.MaxSlots() - 1) / split.MaxSlots();
  return std::max<int64_t>(RoundUp(each, kPrefillCut), kPrefillLeastPart);
}

/// Splits tiles of twice as many positions or more, each part of which has at least as many: so there are no more parts
/// than slots.
class Splitter {
 public:
  Splitter(std::span<PrefillTile> tiles, std::span<PrefillMerge> merges) : tiles_(tiles), merges_(merges) {}

  PrefillPlan Split(int64_t count, int64_t each) {
    int64_t tiles = count, merges = 0;
    int32_t slots = 0;
    for (int64_t i = 0; i < count; ++i) {
      const PrefillTile whole = tiles_[static_cast<size_t>(i)];
      const int64_t parts = whole.num_keys / each;
      if (parts < 2) continue;
      QUIRE_KERNEL_CHECK(merges < static_cast<int64_t>(merges_.size()));
      merges_[static_cast<size_t>(merges++)] = {whole.sequence, whole.first_row, slots, static_cast<int32_t>(parts)};
      const int64_t end = whole.begin + whole.num_keys;
      const int64_t first_unit = whole.begin / kPrefillCut,
                    units = RoundUp(end, kPrefillCut) / kPrefillCut - first_unit;
      for (int64_t part = 0; part < parts; ++part) {
        PrefillTile tile = whole;
        tile.begin =
            static_cast<int32_t>(std::max<int64_t>((first_unit + units * part / parts) * kPrefillCut, tile.begin));
        tile.end = static_cast<int32_t>(std::min((first_unit + units * (part + 1) / parts) * kPrefillCut, end));
        tile.num_keys = tile.end - tile.begin;
        tile.slot = slots++;
        const int64_t at = part == 0 ? i : tiles++;
        QUIRE_KERNEL_CHECK(at < static_cast<int64_t>(tiles_.size()));
        tiles_[static_cast<size_t>(at)] = tile;
      }
    }
    return {tiles, merges};
  }

 private:
  std::span<PrefillTile> tiles_;
  std::span<PrefillMerge> merges_;
};

}  // namespace

PrefillPlan PlanPrefill(const PrefillPlanInputs& in, std::span<PrefillTile> tiles, std::span<PrefillMerge> merges) {
  QUIRE_KERNEL_CHECK(in.query_start.size() == in.context_len.size() + 1);
  QUIRE_KERNEL_CHECK(in.max_group > 0 && in.tile_rows > 0 && in.window >= 0);
  size_t count = 0;
  for (size_t s = 0; s < in.context_len.size(); ++s) {
    const int32_t queries = in.query_start[s + 1] - in.query_start[s], context = in.context_len[s];
    if (context == 0) continue;
    QUIRE_KERNEL_CHECK(queries >= 0 && queries <= context);
    const int64_t rows = int64_t{queries} * in.max_group;
    QUIRE_KERNEL_CHECK(rows + in.tile_rows <= INT32_MAX);
    for (int32_t row = 0; row < rows; row += in.tile_rows) {
      const int32_t first = row / in.max_group;
      const int32_t last = std::min((row + in.tile_rows - 1) / in.max_group, queries - 1);
      const int32_t end = context - queries + last + 1;
      const int32_t begin = in.window > 0 ? std::max(context - queries + first - in.window + 1, 0) : 0;
      QUIRE_KERNEL_CHECK(count < tiles.size());
      tiles[count++] = {.sequence = static_cast<int32_t>(s), .first_row = row, .num_keys = end - begin, .begin = begin};
    }
  }
  PrefillPlan plan{static_cast<int64_t>(count), 0};
  const int64_t each = PositionsForEach(tiles.first(count), in.split);
  if (each > 0) plan = Splitter(tiles, merges).Split(plan.num_tiles, each);
  const auto end = tiles.begin() + static_cast<ptrdiff_t>(plan.num_tiles);
  std::sort(tiles.begin(), end, [](const PrefillTile& a, const PrefillTile& b) {
    return std::tie(b.num_keys, a.sequence, a.first_row, a.begin) <
           std::tie(a.num_keys, b.sequence, b.first_row, b.begin);
  });
  std::fill(end, tiles.end(), PrefillTile());
  return plan;
}

}  // namespace quire::kernels
