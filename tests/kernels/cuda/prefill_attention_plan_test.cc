#include "kernels/cuda/prefill/prefill_attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace quire::kernels {
namespace {

TEST(PlanPrefillTest, PlanPrefill_CoversEveryRowOnce_HeaviestTileFirst) {
  const std::vector<int32_t> starts{0, 100, 101, 105, 105, 133}, contexts{100, 900, 0, 50, 500}, heads{0, 3};
  std::vector<PrefillTile> tiles(static_cast<size_t>(PrefillTileCapacity(133, 5, 3, 64)));
  const int64_t count = PlanPrefill({starts, contexts, heads, 64, 0}, tiles).num_tiles;
  std::vector<std::vector<int32_t>> rows(5);
  for (int64_t i = 0; i < count; ++i) {
    const PrefillTile& tile = tiles[static_cast<size_t>(i)];
    rows.at(static_cast<size_t>(tile.sequence)).push_back(tile.first_row);
    if (i > 0) {
      EXPECT_LE(tile.num_keys, tiles[static_cast<size_t>(i) - 1].num_keys);
    }
  }
  for (std::vector<int32_t>& r : rows) std::sort(r.begin(), r.end());
  EXPECT_EQ(rows, (std::vector<std::vector<int32_t>>{{0, 64, 128, 192, 256}, {0}, {}, {}, {0, 64}}));
  EXPECT_EQ(tiles[0].sequence, 1);  // a decode of 900 keys
  EXPECT_EQ(tiles[0].num_keys, 900);
  EXPECT_EQ(tiles[1].num_keys, 500);       // the last queries of the last sequence
  EXPECT_EQ(tiles[2].num_keys, 472 + 22);  // rows 0..63 are queries 0..21 at positions 472 + i
  for (size_t i = static_cast<size_t>(count); i < tiles.size(); ++i) EXPECT_EQ(tiles[i].sequence, -1);
}

TEST(PlanPrefillTest, PlanPrefill_CountsOnlyKeysInTheWindow) {
  const std::vector<int32_t> starts{0, 20}, contexts{1000}, heads{0, 1};
  std::vector<PrefillTile> tiles(2);
  EXPECT_EQ(PlanPrefill({starts, contexts, heads, 16, 100}, tiles).num_tiles, 2);
  EXPECT_EQ(tiles[0].num_keys, 115);  // 16 queries; each sees 100 keys, from one key later than the previous query
  EXPECT_EQ(tiles[1].num_keys, 103);
}

TEST(PlanPrefillTest, PlanPrefill_SplitsATileIntoEqualParts_WhenTheDeviceWouldIdle) {
  // 264 thread blocks for 8 KV heads give 33 slots. 16 queries of 4 heads after 32,768 tokens need only one tile.
  const PrefillSplit split{264, 8};
  const std::vector<int32_t> starts{0, 16}, contexts{32784}, heads{0, 4, 8, 12, 16, 20, 24, 28, 32};
  std::vector<PrefillTile> tiles(static_cast<size_t>(PrefillTileCapacity(16, 1, 4, 128, split)));
  std::vector<PrefillMerge> merges(static_cast<size_t>(split.MaxMerges()));
  const PrefillPlan plan = PlanPrefill({starts, contexts, heads, 128, 0, split}, tiles, merges);
  ASSERT_EQ(plan.num_merges, 1);
  EXPECT_EQ(plan.num_tiles, 32);  // each of 1,024 positions: a 33rd of all positions, rounded up to a multiple of 128
  EXPECT_EQ(merges[0].num_slots, 32);
  std::vector<PrefillTile> by_begin(tiles.begin(), tiles.begin() + plan.num_tiles);
  std::ranges::sort(by_begin, {}, &PrefillTile::begin);
  int32_t next = 0;
  for (size_t i = 0; i < by_begin.size(); ++i) {
    EXPECT_EQ(by_begin[i].begin, next);
    EXPECT_EQ(by_begin[i].slot, static_cast<int32_t>(i));
    const bool last = i + 1 == by_begin.size();
    EXPECT_EQ(by_begin[i].num_keys, (last ? contexts[0] : by_begin[i].end) - by_begin[i].begin);
    EXPECT_NEAR(by_begin[i].num_keys, 1024, kPrefillCut);
    EXPECT_TRUE(i == 0 || by_begin[i].begin % kPrefillCut == 0);
    next = by_begin[i].end;
  }
  EXPECT_EQ(next, INT32_MAX);
}

TEST(PlanPrefillTest, PlanPrefill_SplitsNoTile_WhenThereAreManyTilesOrContextsAreShort) {
  const PrefillSplit split{264, 8};
  std::vector<PrefillMerge> merges(static_cast<size_t>(split.MaxMerges()));
  // The first case is a prompt of 33 tiles, as many as there are slots. The second one is a tile of 1,000 positions,
  // which is shorter than two parts.
  for (const auto& [queries, context] : {std::pair{33 * 32, 9000}, {2, 1000}}) {
    const std::vector<int32_t> starts{0, queries}, contexts{context}, heads{0, 4, 8, 12, 16, 20, 24, 28, 32};
    std::vector<PrefillTile> tiles(static_cast<size_t>(PrefillTileCapacity(queries, 1, 4, 128, split)));
    const PrefillPlan plan = PlanPrefill({starts, contexts, heads, 128, 0, split}, tiles, merges);
    EXPECT_EQ(plan.num_merges, 0);
    EXPECT_EQ(plan.num_tiles, (queries + 31) / 32);
    EXPECT_EQ(tiles[0].slot, -1);
  }
}

TEST(PlanPrefillTest, PlanPrefill_ExtendsTilesToTheLatestQueryOfAnyGroup) {
  // Rows 0 to 127 are queries 0 to 42 of the group of 3 heads and all 100 queries of the group of 1 head.
  const std::vector<int32_t> starts{0, 100}, contexts{1200}, heads{0, 3, 4};
  std::vector<PrefillTile> tiles(3);
  ASSERT_EQ(PlanPrefill({starts, contexts, heads, 128, 0}, tiles).num_tiles, 3);
  std::ranges::sort(tiles, {}, &PrefillTile::first_row);
  EXPECT_EQ(tiles[0].num_keys, 1200);
  EXPECT_EQ(tiles[1].num_keys, 1100 + 86);  // only the group of 3 heads has such rows, which end with query 85
  EXPECT_EQ(tiles[2].num_keys, 1200);
}

/// A step of random chunks and heads, and its plan.
struct RandomPlan {
  explicit RandomPlan(test::Random& random)
      : split{static_cast<int32_t>(random.Below(300)), static_cast<int32_t>(1 + random.Below(5))},
        window(static_cast<int32_t>(random.Below(2) * random.Between(1, 9000))),
        tile_rows(static_cast<int32_t>(32 << random.Below(3))) {
    for (int32_t g = 0; g < split.kv_heads; ++g)
      head_start.push_back(head_start.back() + static_cast<int32_t>(random.Below(9)));
    for (int64_t s = random.Below(6); s >= 0; --s) {
      const auto queries = static_cast<int32_t>(random.Below(200));
      starts.push_back(starts.back() + queries);
      contexts.push_back(queries + static_cast<int32_t>(random.Below(random.Below(2) == 0 ? 3000 : 20000)));
    }
    tiles.resize(static_cast<size_t>(
        PrefillTileCapacity(starts.back(), std::ssize(contexts), LargestPrefillGroup(head_start), tile_rows, split)));
    merges.resize(static_cast<size_t>(split.MaxMerges()));
    plan = PlanPrefill({starts, contexts, head_start, tile_rows, window, split}, tiles, merges);
    tiles.resize(static_cast<size_t>(plan.num_tiles));
    merges.resize(static_cast<size_t>(plan.num_merges));
  }

  PrefillSplit split;
  int32_t window, tile_rows;
  std::vector<int32_t> head_start{0}, starts{0}, contexts;
  std::vector<PrefillTile> tiles;
  std::vector<PrefillMerge> merges;
  PrefillPlan plan{};
};

TEST(PlanPrefillTest, PlanPrefill_GivesEachPartItsOwnSlot) {
  test::Random random(5);
  for (int round = 0; round < 2000; ++round) {
    const RandomPlan of(random);
    std::vector<bool> used(static_cast<size_t>(of.split.MaxSlots()));
    for (const PrefillTile& tile : of.tiles) {
      if (tile.slot < 0) continue;
      EXPECT_FALSE(used.at(static_cast<size_t>(tile.slot)));
      used[static_cast<size_t>(tile.slot)] = true;
    }
    for (const PrefillMerge& merge : of.merges) {
      for (int32_t i = 0; i < merge.num_slots; ++i) {
        const int32_t slot = merge.first_slot + i;
        const auto part = std::ranges::find(of.tiles, slot, &PrefillTile::slot);
        ASSERT_NE(part, of.tiles.end());
        EXPECT_TRUE(part->sequence == merge.sequence && part->first_row == merge.first_row);
        used[static_cast<size_t>(slot)] = false;
      }
    }
    EXPECT_TRUE(std::ranges::find(used, true) == used.end()) << "a part that nobody puts together, round " << round;
  }
}

/// Describes the error; empty if the row's tiles contain each position in [begin, end) exactly once.
std::string WrongForRow(const RandomPlan& of, int32_t sequence, int32_t row, int32_t begin, int32_t end) {
  std::vector<PrefillTile> having;
  for (const PrefillTile& tile : of.tiles) {
    if (tile.sequence == sequence && row >= tile.first_row && row < tile.first_row + of.tile_rows)
      having.push_back(tile);
  }
  std::ranges::sort(having, {}, &PrefillTile::begin);
  int32_t next = begin;
  for (const PrefillTile& tile : having) {
    const int32_t from = std::max(tile.begin, begin), to = std::min(tile.end, end);
    if (from >= to) continue;
    if (from != next) return "position " + std::to_string(std::min(from, next)) + " not once";
    next = to;
  }
  return next == end ? "" : "positions from " + std::to_string(next) + " on are left out";
}

TEST(PlanPrefillTest, PlanPrefill_GivesEveryRowOfEveryKvHeadItsPositionsOnce) {
  test::Random random(6);
  int64_t parts = 0;
  for (int round = 0; round < 500; ++round) {
    const RandomPlan of(random);
    parts += of.plan.num_merges;
    for (size_t s = 0; s < of.contexts.size(); ++s) {
      const int32_t queries = of.starts[s + 1] - of.starts[s];
      for (size_t g = 0; g + 1 < of.head_start.size() && of.contexts[s] > 0; ++g) {
        const int32_t group = of.head_start[g + 1] - of.head_start[g];
        for (int32_t row = 0; row < queries * group; ++row) {
          const int32_t end = of.contexts[s] - queries + row / group + 1;
          const int32_t begin = of.window > 0 ? std::max(end - of.window, 0) : 0;
          ASSERT_EQ(WrongForRow(of, static_cast<int32_t>(s), row, begin, end), "")
              << "round " << round << ", sequence " << s << ", row " << row << " of a group of " << group;
        }
      }
    }
  }
  EXPECT_GT(parts, 500);
}

TEST(PlanPrefillTest, PrefillTileCapacity_EqualsTheNumberOfTiles_WhenEverySequenceNeedsAPartialTile) {
  std::vector<int32_t> starts{0}, contexts;
  const std::vector<int32_t> heads{0, 4};
  for (int s = 0; s < 10; ++s) {
    starts.push_back(starts.back() + 17);
    contexts.push_back(17);
  }
  std::vector<PrefillTile> tiles(static_cast<size_t>(PrefillTileCapacity(170, 10, 4, 64)));
  EXPECT_EQ(tiles.size(), 20u);
  EXPECT_EQ(PlanPrefill({starts, contexts, heads, 64, 0}, tiles).num_tiles, 20);  // 68 rows each: a tile and 4 rows
}

}  // namespace
}  // namespace quire::kernels
