#include "kernels/cuda/prefill/prefill_attention_plan.h"

#include <algorithm>
#include <tuple>

#include "kernels/check.h"

namespace quire::kernels {

namespace {

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Returns how many positions each thread block gets if all get about equally many. Returns 0 when there are enough
/// tiles for the device without splits.
int64_t PositionsForEach(std::span<const PrefillTile> tiles, const PrefillSplit& split) {
  if (static_cast<int64_t>(tiles.size()) >= split.MaxSlots()) return 0;
  int64_t positions = 0;
  for (const PrefillTile& tile : tiles) positions += tile.num_keys;
  const int64_t each = (positions + split.MaxSlots() - 1) / split.MaxSlots();
  return std::max<int64_t>(RoundUp(each, kPrefillCut), kPrefillLeastPart);
}

/// The positions [begin, end) that at least one row of a tile sees, over all KV heads.
struct Seen {
  int32_t begin, end;
};

/// A sequence's chunk of queries. A tile has the same row numbers for every KV head. A query has one row for each query
/// head of the KV head's group, so the smaller the group is, the later are the queries of these rows.
class Chunk {
 public:
  Chunk(const PrefillPlanInputs& in, size_t sequence)
      : in_(in),
        queries_(in.query_start[sequence + 1] - in.query_start[sequence]),
        context_(in.context_len[sequence]),
        group_(LargestPrefillGroup(in.head_start)) {
    QUIRE_KERNEL_CHECK(queries_ >= 0 && queries_ <= context_);
    QUIRE_KERNEL_CHECK(int64_t{queries_} * group_ + in.tile_rows <= INT32_MAX);
  }

  int32_t NumRows() const { return queries_ * group_; }

  Seen SeenFrom(int32_t first_row) const {
    const int32_t first_position = context_ - queries_, first_query = first_row / group_;
    int32_t last_query = first_query;
    for (size_t g = 0; g + 1 < in_.head_start.size(); ++g) {
      const int32_t group = in_.head_start[g + 1] - in_.head_start[g];
      const bool has_rows = first_row < int64_t{queries_} * group;
      if (has_rows) last_query = std::max(last_query, std::min((first_row + in_.tile_rows - 1) / group, queries_ - 1));
    }
    const int32_t begin = in_.window > 0 ? std::max(first_position + first_query - in_.window + 1, 0) : 0;
    return {begin, first_position + last_query + 1};
  }

 private:
  const PrefillPlanInputs& in_;
  const int32_t queries_, context_, group_;
};

/// Splits tiles that have at least twice `each` positions into parts of at least `each` positions, so that there are
/// never more parts than slots.
class Splitter {
 public:
  Splitter(const PrefillPlanInputs& in, std::span<PrefillTile> tiles, std::span<PrefillMerge> merges)
      : in_(in), tiles_(tiles), merges_(merges) {}

  PrefillPlan Split(int64_t count, int64_t each) {
    num_tiles_ = count;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t parts = tiles_[static_cast<size_t>(i)].num_keys / each;
      if (parts >= 2) SplitTile(i, parts);
    }
    return {num_tiles_, num_merges_};
  }

 private:
  /// Splits a tile into parts that together cover all positions. In each part, a row uses only the positions that the
  /// row sees.
  void SplitTile(int64_t index, int64_t parts) {
    const PrefillTile whole = tiles_[static_cast<size_t>(index)];
    QUIRE_KERNEL_CHECK(num_merges_ < static_cast<int64_t>(merges_.size()));
    merges_[static_cast<size_t>(num_merges_++)] = {whole.sequence, whole.first_row, num_slots_,
                                                   static_cast<int32_t>(parts)};
    const Seen seen = Chunk(in_, static_cast<size_t>(whole.sequence)).SeenFrom(whole.first_row);
    const int64_t first_unit = seen.begin / kPrefillCut,
                  units = RoundUp(seen.end, kPrefillCut) / kPrefillCut - first_unit;
    const auto cut = [&](int64_t part) {
      return static_cast<int32_t>((first_unit + units * part / parts) * kPrefillCut);
    };
    for (int64_t part = 0; part < parts; ++part) {
      PrefillTile tile = whole;
      if (part > 0) tile.begin = cut(part);
      if (part + 1 < parts) tile.end = cut(part + 1);
      tile.num_keys = std::min(tile.end, seen.end) - std::max(tile.begin, seen.begin);
      tile.slot = num_slots_++;
      const int64_t at = part == 0 ? index : num_tiles_++;
      QUIRE_KERNEL_CHECK(at < static_cast<int64_t>(tiles_.size()));
      tiles_[static_cast<size_t>(at)] = tile;
    }
  }

  const PrefillPlanInputs& in_;
  const std::span<PrefillTile> tiles_;
  const std::span<PrefillMerge> merges_;
  int64_t num_tiles_ = 0, num_merges_ = 0;
  int32_t num_slots_ = 0;
};

}  // namespace

int32_t LargestPrefillGroup(std::span<const int32_t> head_start) {
  int32_t largest = 1;
  for (size_t g = 1; g < head_start.size(); ++g) largest = std::max(largest, head_start[g] - head_start[g - 1]);
  return largest;
}

PrefillPlan PlanPrefill(const PrefillPlanInputs& in, std::span<PrefillTile> tiles, std::span<PrefillMerge> merges) {
  QUIRE_KERNEL_CHECK(in.query_start.size() == in.context_len.size() + 1);
  QUIRE_KERNEL_CHECK(!in.head_start.empty() && in.tile_rows > 0 && in.window >= 0);
  size_t count = 0;
  for (size_t s = 0; s < in.context_len.size(); ++s) {
    if (in.context_len[s] == 0) continue;
    const Chunk chunk(in, s);
    for (int32_t row = 0; row < chunk.NumRows(); row += in.tile_rows) {
      const Seen seen = chunk.SeenFrom(row);
      QUIRE_KERNEL_CHECK(count < tiles.size());
      tiles[count++] = {.sequence = static_cast<int32_t>(s), .first_row = row, .num_keys = seen.end - seen.begin};
    }
  }
  PrefillPlan plan{static_cast<int64_t>(count), 0};
  const int64_t each = PositionsForEach(tiles.first(count), in.split);
  if (each > 0) plan = Splitter(in, tiles, merges).Split(plan.num_tiles, each);
  const auto end = tiles.begin() + static_cast<ptrdiff_t>(plan.num_tiles);
  std::sort(tiles.begin(), end, [](const PrefillTile& a, const PrefillTile& b) {
    return std::tie(b.num_keys, a.sequence, a.first_row, a.begin) <
           std::tie(a.num_keys, b.sequence, b.first_row, b.begin);
  });
  std::fill(end, tiles.end(), PrefillTile());
  return plan;
}

}  // namespace quire::kernels
