#include "worker/model/block_cut.h"

#include <gtest/gtest.h>

#include <numeric>

#include "worker/model/kv_layout.h"

namespace quire {
namespace {

/// Makes a model of four layers with `heads` query heads and `kv_heads` KV heads of 8 numbers. Layer 1 has one KV head
/// of 16 numbers, and layer 3 uses the keys and values of layer 1.
ModelSpec SpecOf(int64_t heads, int64_t kv_heads) {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.num_heads = heads;
  spec.hidden_size = heads * 8;
  spec.vocab_size = 64;
  spec.layers.resize(4);
  for (LayerSpec& layer : spec.layers) {
    layer.num_kv_heads = kv_heads;
    layer.head_dim = 8;
    layer.intermediate_size = 64;
  }
  spec.layers[1].num_kv_heads = 1;
  spec.layers[1].head_dim = 16;
  spec.layers[3].kv_from_layer = 1;
  return spec;
}

int64_t HeadBytes(int64_t head_dim) { return 2 * head_dim; }

/// Returns a rank's block. Each element represents one byte and encodes the byte's layer, keys or values, head and
/// position in the head.
std::vector<uint32_t> BlockOf(const ModelSpec& spec, const RankShard& shard) {
  const KvLayout layout(spec, shard, HeadBytes);
  std::vector<uint32_t> block(static_cast<size_t>(layout.block_bytes), UINT32_MAX);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_kv()) continue;
    const KvLayout::Layer& layer = layout.layer(static_cast<int64_t>(i));
    const int64_t bytes = HeadBytes(layer.head_dim);
    for (uint32_t values : {0u, 1u}) {
      for (int64_t h = 0; h < layer.kv_heads; ++h) {
        const int64_t head = shard.layers[i].kv_heads.begin + h;
        for (int64_t byte = 0; byte < bytes; ++byte) {
          const int64_t at = (values == 1 ? layer.values_at : layer.keys_at) + h * bytes + byte;
          block[static_cast<size_t>(at)] =
              static_cast<uint32_t>(i) << 24 | values << 20 | static_cast<uint32_t>(head << 10 | byte);
        }
      }
    }
  }
  return block;
}

/// Returns every assignment of the shares 1, 2 and 5 to `ranks` ranks.
std::vector<std::vector<double>> SharesOf(int ranks) {
  std::vector<std::vector<double>> all = {{}};
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::vector<double>> longer;
    for (const auto& shares : all) {
      for (const double share : {1.0, 2.0, 5.0}) {
        longer.push_back(shares);
        longer.back().push_back(share);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// Expects that every rank of group `to` receives exactly its own block from the ranks of group `from`, each byte once.
void ExpectWholeBlocks(const ModelSpec& spec, const std::vector<double>& from, const std::vector<double>& to) {
  const std::vector<RankShard> givers = PlanShards(spec, from), takers = PlanShards(spec, to);
  for (Rank t = 0; t < static_cast<Rank>(takers.size()); ++t) {
    const std::vector<uint32_t> right = BlockOf(spec, takers[static_cast<size_t>(t)]);
    std::vector<uint32_t> got(right.size(), 0);
    std::vector<int> written(right.size(), 0);
    for (Rank g = 0; g < static_cast<Rank>(givers.size()); ++g) {
      const std::vector<uint32_t> source = BlockOf(spec, givers[static_cast<size_t>(g)]);
      const BlockCut cut = CutBetween(spec, givers, g, takers, t, HeadBytes);
      ASSERT_EQ(BytesOf(cut.given), BytesOf(cut.taken));
      std::vector<uint32_t> stream;
      for (const BlockRun& run : cut.given) {
        ASSERT_GT(run.bytes, 0);
        ASSERT_LE(run.at + run.bytes, static_cast<int64_t>(source.size()));
        stream.insert(stream.end(), source.begin() + run.at, source.begin() + run.at + run.bytes);
      }
      size_t next = 0;
      for (const BlockRun& run : cut.taken) {
        ASSERT_LE(run.at + run.bytes, static_cast<int64_t>(got.size()));
        for (int64_t i = run.at; i < run.at + run.bytes; ++i) {
          got[static_cast<size_t>(i)] = stream[next++];
          ++written[static_cast<size_t>(i)];
        }
      }
    }
    ASSERT_EQ(got, right) << "rank " << t << " of " << to.size() << " from " << from.size();
    ASSERT_EQ(written, std::vector<int>(right.size(), 1));
  }
}

TEST(BlockCutTest, CutBetween_GivesEachRankEveryByteOfItsBlockOnce_ForAllSharesOfOneToFourRanks) {
  for (const auto& [heads, kv_heads] : {std::pair{9, 9}, {9, 3}, {8, 2}, {6, 1}, {4, 4}}) {
    const ModelSpec spec = SpecOf(heads, kv_heads);
    for (int from = 1; from <= 3; ++from) {
      for (int to = 1; to <= 4; ++to) {
        for (const auto& a : SharesOf(from)) {
          // With three or four receiving ranks, only every fifth assignment is tried, to save time.
          const auto others = SharesOf(to);
          for (size_t i = 0; i<others.size(); i += to> 2 ? 5 : 1) ExpectWholeBlocks(spec, a, others[i]);
        }
      }
    }
  }
}

TEST(BlockCutTest, CutBetween_CopiesWholeBlocksRankToRank_WhenBothGroupsAreEqual) {
  for (const int kv_heads : {1, 3, 9}) {
    const ModelSpec spec = SpecOf(9, kv_heads);
    const std::vector<RankShard> shards = PlanShards(spec, {1, 2, 1});
    for (Rank giver = 0; giver < 3; ++giver) {
      for (Rank taker = 0; taker < 3; ++taker) {
        const BlockCut cut = CutBetween(spec, shards, giver, shards, taker, HeadBytes);
        const KvLayout layout(spec, shards[static_cast<size_t>(giver)], HeadBytes);
        const BlockRuns whole = {{0, layout.block_bytes}};
        EXPECT_EQ(cut.given, giver == taker ? whole : BlockRuns{});
        EXPECT_EQ(cut.taken, giver == taker ? whole : BlockRuns{});
      }
    }
  }
}

/// When two sending ranks hold the same head, each sends it to half of the four receiving ranks.
TEST(BlockCutTest, CutBetween_SpreadsReceiversOverSenders_WhenSendersHoldTheSameHead) {
  const ModelSpec spec = SpecOf(6, 1);
  const std::vector<RankShard> givers = PlanShards(spec, {1, 1}), takers = PlanShards(spec, {1, 1, 1, 1});
  for (Rank giver = 0; giver < 2; ++giver) {
    int receivers = 0;
    for (Rank taker = 0; taker < 4; ++taker)
      receivers += CutBetween(spec, givers, giver, takers, taker, HeadBytes).given.empty() ? 0 : 1;
    EXPECT_EQ(receivers, 2) << giver;
  }
}

TEST(BlockCutTest, CutBetween_MovesLatentsOnce_WhenBlocksHoldThemOnce) {
  ModelSpec spec = SpecOf(4, 1);
  spec.latent.rank = 4;
  const std::vector<RankShard> givers = PlanShards(spec, {1, 1}), takers = PlanShards(spec, {1, 1, 2});
  for (Rank taker = 0; taker < 3; ++taker) {
    const RankShard& to = takers[static_cast<size_t>(taker)];
    const int64_t bytes = KvLayout(spec, to, HeadBytes, true).block_bytes;
    EXPECT_EQ(KvLayout(spec, to, HeadBytes).block_bytes, 2 * bytes);
    std::vector<int> written(static_cast<size_t>(bytes));
    for (Rank giver = 0; giver < 2; ++giver) {
      for (const BlockRun& run : CutBetween(spec, givers, giver, takers, taker, HeadBytes, true).taken) {
        for (int64_t at = run.at; at < run.at + run.bytes; ++at) ++written.at(static_cast<size_t>(at));
      }
    }
    EXPECT_EQ(written, std::vector<int>(written.size(), 1));
  }
}

TEST(BlockCutTest, PartsOfTheWhole_CoverAWholeBlockOnce_AndGiveEveryRankItsBlock) {
  const auto bytes_of = [](const BlockRuns& runs) {
    return std::accumulate(runs.begin(), runs.end(), int64_t{0},
                           [](int64_t sum, BlockRun run) { return sum + run.bytes; });
  };
  for (const auto& [heads, kv_heads] : {std::pair{9, 9}, {9, 3}, {6, 1}}) {
    const ModelSpec spec = SpecOf(heads, kv_heads);
    for (int ranks = 1; ranks <= 3; ++ranks) {
      for (const std::vector<double>& shares : SharesOf(ranks)) {
        const std::vector<RankShard> own = PlanShards(spec, shares);
        std::vector<int> given;
        for (Rank rank = 0; rank < ranks; ++rank) {
          const WholeBlockPart part = PartOfWhole(spec, {shares, {}}, rank, HeadBytes);
          given.resize(static_cast<size_t>(part.block_bytes));
          for (const BlockRun& run : part.given) {
            for (int64_t at = run.at; at < run.at + run.bytes; ++at) ++given[static_cast<size_t>(at)];
          }
          const int64_t block = KvLayout(spec, own[static_cast<size_t>(rank)], HeadBytes).block_bytes;
          EXPECT_EQ(bytes_of(part.taken), block);
          BlockCuts cuts({&spec, {shares, {}}, rank, block, HeadBytes});
          EXPECT_EQ(bytes_of(cuts.To({{1.0}, {}})[0]), bytes_of(part.given));
          EXPECT_EQ(bytes_of(cuts.From({{1.0}, {}})[0]), bytes_of(part.taken));
        }
        EXPECT_EQ(given, std::vector<int>(given.size(), 1));
      }
    }
  }
}

/// Checks that between groups with different shares and stages, every byte of every receiver's block arrives exactly
/// once.
TEST(BlockCutTest, EachRank_GetsEveryByteOfItsBlockOnce_BetweenPipelinesOfAnyShape) {
  const ModelSpec spec = SpecOf(9, 3);
  // Layer 3 uses the keys and values of layer 1, so the layers from 1 on are one stage.
  const std::vector<GroupCut> cuts = {
      {{1.0}, {}}, {{1, 1}, {}}, {{1, 2}, {1, 3}}, {{1.0}, {1, 3}}, {{1, 1, 1}, {1, 3}}};
  for (const GroupCut& from : cuts) {
    const std::vector<RankShard> givers = PlanGroup(spec, from);
    for (const GroupCut& to : cuts) {
      const std::vector<RankShard> takers = PlanGroup(spec, to);
      for (Rank taker = 0; taker < to.num_ranks(); ++taker) {
        const KvLayout mine(spec, takers[static_cast<size_t>(taker)], HeadBytes);
        std::vector<int> arrived(static_cast<size_t>(mine.block_bytes));
        for (Rank giver = 0; giver < from.num_ranks(); ++giver) {
          const BlockCut cut = CutBetween(spec, givers, giver, takers, taker, HeadBytes);
          const int64_t given = KvLayout(spec, givers[static_cast<size_t>(giver)], HeadBytes).block_bytes;
          for (const BlockRun& run : cut.given) EXPECT_LE(run.at + run.bytes, given);
          for (const BlockRun& run : cut.taken) {
            for (int64_t at = run.at; at < run.at + run.bytes; ++at) ++arrived[static_cast<size_t>(at)];
          }
        }
        EXPECT_EQ(arrived, std::vector<int>(arrived.size(), 1));
      }
    }
  }
}

TEST(BlockCutTest, BlockCutsOfOneRank_EqualTheResultsOfCutBetween) {
  const ModelSpec spec = SpecOf(9, 3);
  const std::vector<double> two = {1, 1}, three = {1, 1, 1};
  const std::vector<RankShard> givers = PlanShards(spec, two), takers = PlanShards(spec, three);
  const auto bytes = [&](const RankShard& shard) { return KvLayout(spec, shard, HeadBytes).block_bytes; };
  for (Rank giver = 0; giver < 2; ++giver) {
    BlockCuts cuts({&spec, {two, {}}, giver, bytes(givers[static_cast<size_t>(giver)]), HeadBytes});
    for (Rank taker = 0; taker < 3; ++taker)
      EXPECT_EQ(cuts.To({three, {}})[static_cast<size_t>(taker)],
                CutBetween(spec, givers, giver, takers, taker, HeadBytes).given);
    EXPECT_EQ(cuts.To({two, {}})[static_cast<size_t>(giver)],
              (BlockRuns{{0, bytes(givers[static_cast<size_t>(giver)])}}));
    EXPECT_EQ(cuts.To({two, {}})[static_cast<size_t>(1 - giver)], BlockRuns{});
  }
  for (Rank taker = 0; taker < 3; ++taker) {
    BlockCuts cuts({&spec, {three, {}}, taker, bytes(takers[static_cast<size_t>(taker)]), HeadBytes});
    for (Rank giver = 0; giver < 2; ++giver)
      EXPECT_EQ(cuts.From({two, {}})[static_cast<size_t>(giver)],
                CutBetween(spec, givers, giver, takers, taker, HeadBytes).taken);
  }
}

}  // namespace
}  // namespace quire
