#include "worker/model/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/base/error.h"

namespace quire {
namespace {

ModelSpec SmolLm2() {
  ModelSpec c;
  c.architecture = "llama";
  c.hidden_size = 576;
  c.layers.resize(30);
  c.num_heads = 9;
  c.num_kv_heads = 3;
  c.head_dim = 64;
  c.intermediate_size = 1536;
  c.vocab_size = 49152;
  return c;
}

int64_t NumbersReadBy(const ModelSpec& c, const RankShard& s) {
  return c.num_layers() * (2 * c.head_dim * (s.heads.size() + s.kv_heads.size()) + 3 * s.mlp.size()) + s.vocab.size();
}

TEST(ShardTest, NineHeadsOnTwoRanks) {
  const auto shards = PlanShards(SmolLm2(), {1, 1});
  EXPECT_EQ(shards[0].heads, (Range{0, 5}));
  EXPECT_EQ(shards[1].heads, (Range{5, 9}));
  EXPECT_EQ(shards[0].kv_heads, (Range{0, 2}));
  EXPECT_EQ(shards[1].kv_heads, (Range{1, 3}));  // kv head 1 is on both
  EXPECT_EQ(shards[0].head_start, (std::vector<int32_t>{0, 3, 5}));
  EXPECT_EQ(shards[1].head_start, (std::vector<int32_t>{0, 1, 4}));
  EXPECT_LT(shards[0].mlp.size(), shards[1].mlp.size());  // fills up the missing head
}

TEST(ShardTest, EveryPieceIsOwnedOnceAndKvHeadsCoverTheirQueries) {
  for (const auto& [heads, kv] :
       std::vector<std::pair<int64_t, int64_t>>{{9, 3}, {8, 8}, {8, 1}, {32, 4}, {5, 1}, {12, 4}}) {
    ModelSpec c = SmolLm2();
    c.num_heads = heads;
    c.num_kv_heads = kv;
    for (int64_t ranks = 1; ranks <= heads; ++ranks) {
      std::vector<double> shares(static_cast<size_t>(ranks), 1.0);
      shares[0] = 1.7;
      const auto shards = PlanShards(c, shares);
      Range heads_seen, mlp, vocab;
      for (const RankShard& s : shards) {
        ASSERT_GE(s.heads.size(), 1);
        ASSERT_EQ(s.heads.begin, heads_seen.end);
        ASSERT_EQ(s.mlp.begin, mlp.end);
        ASSERT_EQ(s.vocab.begin, vocab.end);
        ASSERT_EQ(s.mlp.size() % kMlpUnit, 0);
        heads_seen.end = s.heads.end, mlp.end = s.mlp.end, vocab.end = s.vocab.end;
        ASSERT_EQ(static_cast<int64_t>(s.head_start.size()), s.kv_heads.size() + 1);
        for (int64_t h = s.heads.begin; h < s.heads.end; ++h) {
          const int64_t local = h - s.heads.begin, local_kv = h / (heads / kv) - s.kv_heads.begin;
          ASSERT_LE(s.head_start[static_cast<size_t>(local_kv)], local);
          ASSERT_GT(s.head_start[static_cast<size_t>(local_kv) + 1], local);
        }
      }
      ASSERT_EQ(heads_seen.end, heads);
      ASSERT_EQ(mlp.end, c.intermediate_size);
      ASSERT_EQ(vocab.end, c.vocab_size);
    }
  }
}

TEST(ShardTest, EqualSharesReadNearlyEqualWeights) {
  for (const size_t ranks : {2, 3, 4}) {
    const auto shards = PlanShards(SmolLm2(), std::vector<double>(ranks, 1.0));
    std::vector<int64_t> weights;
    for (const auto& s : shards) weights.push_back(NumbersReadBy(SmolLm2(), s));
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    EXPECT_LT(static_cast<double>(*high) / static_cast<double>(*low), 1.03) << ranks << " ranks";
  }
}

TEST(ShardTest, SharesAreFollowed) {
  const auto shards = PlanShards(SmolLm2(), {3, 1});
  const double ratio = static_cast<double>(NumbersReadBy(SmolLm2(), shards[0])) /
                       static_cast<double>(NumbersReadBy(SmolLm2(), shards[1]));
  EXPECT_NEAR(ratio, 3.0, 0.1);
}

/// The shape of a small Qwen2-MoE whose first layer is dense: nine heads.
ModelSpec SomeMixture() {
  ModelSpec c = SmolLm2();
  c.architecture = "qwen2_moe";
  c.mixture = {.experts = 60, .experts_per_token = 4, .intermediate_size = 352, .shared_intermediate_size = 1408};
  for (size_t i = 1; i < c.layers.size(); ++i) c.layers[i].mixture = true;
  return c;
}

TEST(ShardTest, EveryColumnOfExpertsIsOwnedOnceAndWhatATokenReadsIsEven) {
  const ModelSpec c = SomeMixture();
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    Range expert, shared, mlp;
    std::vector<int64_t> reads;
    for (const RankShard& s : PlanShards(c, std::vector<double>(ranks, 1.0))) {
      for (const auto& [part, seen] : {std::pair{s.expert_mlp, &expert}, {s.shared_mlp, &shared}, {s.mlp, &mlp}}) {
        ASSERT_EQ(part.begin, seen->end);
        ASSERT_EQ(part.size() % kMlpUnit, 0);
        seen->end = part.end;
      }
      reads.push_back(29 * 3 * (4 * s.expert_mlp.size() + s.shared_mlp.size()) + 3 * s.mlp.size() +
                      30 * 2 * c.head_dim * (s.heads.size() + s.kv_heads.size()) + s.vocab.size());
    }
    EXPECT_EQ(expert.end, 352);
    EXPECT_EQ(shared.end, 1408);
    EXPECT_EQ(mlp.end, 1536);
    const auto [low, high] = std::minmax_element(reads.begin(), reads.end());
    EXPECT_LT(static_cast<double>(*high) / static_cast<double>(*low), 1.05) << ranks << " ranks";
  }
}

TEST(ShardTest, WhatNoLayerHasIsNobodys) {
  ModelSpec c = SomeMixture();
  c.layers[0].mixture = true;
  c.mixture.shared_intermediate_size = 0;
  for (const RankShard& s : PlanShards(c, {1, 1})) {
    EXPECT_EQ(s.mlp.size(), 0);
    EXPECT_EQ(s.shared_mlp.size(), 0);
    EXPECT_GT(s.expert_mlp.size(), 0);
  }
}

TEST(ShardTest, MoreRanksThanHeadsIsAnErrorThatSaysWhatWorks) {
  try {
    PlanShards(SmolLm2(), std::vector<double>(10, 1.0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1 to 9 ranks"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
