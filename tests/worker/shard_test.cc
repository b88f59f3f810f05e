#include "worker/model/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/base/error.h"
#include "worker/model/kv_layout.h"
#include "worker/model/state_layout.h"

namespace quire {
namespace {

ModelSpec SmolLm2() {
  ModelSpec c;
  c.architecture = "llama";
  c.hidden_size = 576;
  c.layers.resize(30);
  c.num_heads = 9;
  c.SetAll(&LayerSpec::num_kv_heads, 3);
  c.SetAll(&LayerSpec::head_dim, 64);
  c.SetAll(&LayerSpec::intermediate_size, 1536);
  c.vocab_size = 49152;
  return c;
}

/// Returns how many numbers of matrices a rank reads for a token, divided by the hidden size. Every layer must have
/// attention with keys and values of its own.
int64_t NumbersReadBy(const ModelSpec& c, const RankShard& s) {
  int64_t numbers = s.vocab.size();
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const LayerShard& layer = s.layers[i];
    numbers += 2 * c.layers[i].head_dim * (s.heads.size() + layer.kv_heads.size()) + 3 * layer.mlp.size();
    if (c.layers[i].mixture) numbers += 3 * (c.mixture.experts_per_token * s.expert_mlp.size() + s.shared_mlp.size());
  }
  return numbers;
}

TEST(ShardTest, PlanShards_GivesFiveAndFourHeads_ForNineHeadsOnTwoRanks) {
  const auto shards = PlanShards(SmolLm2(), {1, 1});
  EXPECT_EQ(shards[0].heads, (Range{0, 5}));
  EXPECT_EQ(shards[1].heads, (Range{5, 9}));
  for (size_t layer = 0; layer < 30; ++layer) {
    const LayerShard &first = shards[0].layers[layer], &second = shards[1].layers[layer];
    EXPECT_EQ(first.kv_heads, (Range{0, 2}));
    EXPECT_EQ(second.kv_heads, (Range{1, 3}));  // kv head 1 is on both ranks
    EXPECT_EQ(first.head_start, (std::vector<int32_t>{0, 3, 5}));
    EXPECT_EQ(second.head_start, (std::vector<int32_t>{0, 1, 4}));
    EXPECT_LT(first.mlp.size(), second.mlp.size());  // the rank with fewer heads gets more of the MLP
  }
}

/// Makes a model with two kinds of layers. In every third layer the heads are twice as large, three query heads share a
/// KV head, and the MLP is twice as wide.
ModelSpec TwoKindsOfLayers() {
  ModelSpec c = SmolLm2();
  c.SetAll(&LayerSpec::num_kv_heads, 9);
  for (size_t i = 2; i < c.layers.size(); i += 3) {
    c.layers[i].num_kv_heads = 3;
    c.layers[i].head_dim = 128;
    c.layers[i].intermediate_size = 3072;
  }
  return c;
}

TEST(ShardTest, PlanShards_SplitsEachLayerByItsOwnHeadsAndMlp) {
  const ModelSpec c = TwoKindsOfLayers();
  for (const size_t ranks : {2, 3, 4}) {
    const auto shards = PlanShards(c, std::vector<double>(ranks, 1.0));
    std::vector<int64_t> mlp_end(c.layers.size()), reads;
    for (const RankShard& s : shards) {
      EXPECT_EQ(s.layers[0].kv_heads, s.heads);
      EXPECT_EQ(s.layers[2].kv_heads, (Range{s.heads.begin / 3, (s.heads.end + 2) / 3}));
      EXPECT_EQ(s.layers[0].head_start.size(), static_cast<size_t>(s.heads.size()) + 1);
      for (size_t i = 0; i < c.layers.size(); ++i) {
        EXPECT_EQ(s.layers[i].mlp.begin, mlp_end[i]);
        mlp_end[i] = s.layers[i].mlp.end;
      }
      reads.push_back(NumbersReadBy(c, s));
    }
    for (size_t i = 0; i < c.layers.size(); ++i) EXPECT_EQ(mlp_end[i], c.layers[i].intermediate_size);
    const auto [low, high] = std::minmax_element(reads.begin(), reads.end());
    EXPECT_LT(static_cast<double>(*high) / static_cast<double>(*low), 1.03) << ranks << " ranks";
  }
}

TEST(ShardTest, KvLayout_HoldsOnlyLayersWithTheirOwnKeys) {
  ModelSpec c = TwoKindsOfLayers();
  c.layers[5].kv_from_layer = 2;
  const RankShard shard = PlanShards(c, {1, 1})[0];  // its five query heads have five keys of 64 or two of 128
  const KvLayout layout(c, shard, [](int64_t head_dim) { return 16 * head_dim; });
  const int64_t small = 16 * 5 * 64, large = 16 * 2 * 128;
  EXPECT_EQ(layout.block_bytes, 2 * (20 * small + 9 * large));
  EXPECT_EQ(layout.layer(1).keys_at, 2 * small);
  EXPECT_EQ(layout.layer(1).values_at, 3 * small);
  EXPECT_EQ(layout.layer(1).kv_heads, 5);
  EXPECT_EQ(layout.layer(2).values_at, 4 * small + large);
  EXPECT_EQ(layout.layer(5).keys_at, layout.layer(2).keys_at) << "another layer's";
  EXPECT_EQ(layout.layer(5).head_dim, 128);
  EXPECT_EQ(layout.layer(6).keys_at, 8 * small + 2 * large) << "layer 5 takes no room";
  EXPECT_EQ(QkvWidth(c, shard, 5), 5 * 128);
  EXPECT_EQ(QkvWidth(c, shard, 8), (5 + 2 * 2) * 128);
}

TEST(ShardTest, PlanShards_GivesEveryPieceToOneRank_WithTheKvHeadsOfItsQueries) {
  for (const auto& [heads, kv] :
       std::vector<std::pair<int64_t, int64_t>>{{9, 3}, {8, 8}, {8, 1}, {32, 4}, {5, 1}, {12, 4}}) {
    ModelSpec c = SmolLm2();
    c.num_heads = heads;
    c.SetAll(&LayerSpec::num_kv_heads, kv);
    for (int64_t ranks = 1; ranks <= heads; ++ranks) {
      std::vector<double> shares(static_cast<size_t>(ranks), 1.0);
      shares[0] = 1.7;
      const auto shards = PlanShards(c, shares);
      Range heads_seen, mlp, vocab;
      for (const RankShard& s : shards) {
        ASSERT_GE(s.heads.size(), 1);
        ASSERT_EQ(s.heads.begin, heads_seen.end);
        ASSERT_EQ(s.layers[0].mlp.begin, mlp.end);
        ASSERT_EQ(s.vocab.begin, vocab.end);
        ASSERT_EQ(s.layers[0].mlp.size() % kMlpUnit, 0);
        heads_seen.end = s.heads.end, mlp.end = s.layers[0].mlp.end, vocab.end = s.vocab.end;
        const auto& [kv_heads, ignored, head_start] = s.layers[0];
        ASSERT_EQ(static_cast<int64_t>(head_start.size()), kv_heads.size() + 1);
        for (int64_t h = s.heads.begin; h < s.heads.end; ++h) {
          const int64_t local = h - s.heads.begin, local_kv = h / (heads / kv) - kv_heads.begin;
          ASSERT_LE(head_start[static_cast<size_t>(local_kv)], local);
          ASSERT_GT(head_start[static_cast<size_t>(local_kv) + 1], local);
        }
      }
      ASSERT_EQ(heads_seen.end, heads);
      ASSERT_EQ(mlp.end, c.layers[0].intermediate_size);
      ASSERT_EQ(vocab.end, c.vocab_size);
    }
  }
}

TEST(ShardTest, PlanShards_GivesNearlyEqualWeights_ForEqualShares) {
  for (const size_t ranks : {2, 3, 4}) {
    const auto shards = PlanShards(SmolLm2(), std::vector<double>(ranks, 1.0));
    std::vector<int64_t> weights;
    for (const auto& s : shards) weights.push_back(NumbersReadBy(SmolLm2(), s));
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    EXPECT_LT(static_cast<double>(*high) / static_cast<double>(*low), 1.03) << ranks << " ranks";
  }
}

TEST(ShardTest, PlanShards_GivesWeightsInProportionToShares) {
  const auto shards = PlanShards(SmolLm2(), {3, 1});
  const double ratio = static_cast<double>(NumbersReadBy(SmolLm2(), shards[0])) /
                       static_cast<double>(NumbersReadBy(SmolLm2(), shards[1]));
  EXPECT_NEAR(ratio, 3.0, 0.1);
}

/// Makes the shape of a small Qwen2-MoE with nine heads and a dense first layer.
ModelSpec SomeMixture() {
  ModelSpec c = SmolLm2();
  c.architecture = "qwen2_moe";
  c.mixture = {.experts = 60, .experts_per_token = 4, .intermediate_size = 352, .shared_intermediate_size = 1408};
  for (size_t i = 1; i < c.layers.size(); ++i) c.layers[i].mixture = true;
  return c;
}

TEST(ShardTest, PlanShards_GivesEveryExpertColumnToOneRank_AndEvenReads) {
  const ModelSpec c = SomeMixture();
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    Range expert, shared, mlp;
    std::vector<int64_t> reads;
    for (const RankShard& s : PlanShards(c, std::vector<double>(ranks, 1.0))) {
      for (const auto& [part, seen] :
           {std::pair{s.expert_mlp, &expert}, {s.shared_mlp, &shared}, {s.layers[0].mlp, &mlp}}) {
        ASSERT_EQ(part.begin, seen->end);
        ASSERT_EQ(part.size() % kMlpUnit, 0);
        seen->end = part.end;
      }
      reads.push_back(NumbersReadBy(c, s));
    }
    EXPECT_EQ(expert.end, 352);
    EXPECT_EQ(shared.end, 1408);
    EXPECT_EQ(mlp.end, 1536);
    const auto [low, high] = std::minmax_element(reads.begin(), reads.end());
    EXPECT_LT(static_cast<double>(*high) / static_cast<double>(*low), 1.05) << ranks << " ranks";
  }
}

TEST(ShardTest, PlanShards_GivesEmptyParts_WhenNoLayerHasADenseOrSharedMlp) {
  ModelSpec c = SomeMixture();
  c.layers[0].mixture = true;
  c.mixture.shared_intermediate_size = 0;
  for (const RankShard& s : PlanShards(c, {1, 1})) {
    EXPECT_EQ(s.layers[0].mlp.size(), 0);
    EXPECT_EQ(s.shared_mlp.size(), 0);
    EXPECT_GT(s.expert_mlp.size(), 0);
  }
}

TEST(ShardTest, PlanShards_NamesThePossibleRanks_WhenThereAreMoreRanksThanHeads) {
  try {
    PlanShards(SmolLm2(), std::vector<double>(10, 1.0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1 to 9 ranks"), std::string::npos);
  }
}

/// Makes a model with attention in every fourth layer and the gated delta rule in the others.
ModelSpec GatedDeltaHybrid() {
  ModelSpec c = SmolLm2();
  c.architecture = "qwen3_next";
  c.attention_gate = true;
  for (size_t i = 0; i < c.layers.size(); ++i) c.layers[i].mixer = i % 4 == 3 ? Mixer::kAttention : Mixer::kGatedDelta;
  c.recurrence = {.taps = 4, .key_heads = 3, .value_heads = 6, .key_dim = 32, .value_dim = 48};
  return c;
}

TEST(ShardTest, PlanShards_SplitsTheDeltaRuleByWholeKeyHeads) {
  const ModelSpec c = GatedDeltaHybrid();
  for (const size_t ranks : {1, 2, 3, 5}) {
    int64_t heads = 0, least = INT64_MAX, most = 0, state = 0;
    for (const RankShard& s : PlanShards(c, std::vector<double>(ranks, 1.0))) {
      EXPECT_EQ(s.key_heads.begin, heads);
      EXPECT_EQ(s.value_heads.size(), 2 * s.key_heads.size());
      heads = s.key_heads.end;
      least = std::min(least, s.key_heads.size());
      most = std::max(most, s.key_heads.size());
      state += StateLayout(c, s).bytes;
      EXPECT_EQ(QkvWidth(c, s, 3), 64 * (2 * s.heads.size() + 2 * s.layers[3].kv_heads.size())) << "gates counted in";
    }
    EXPECT_EQ(heads, 3);
    EXPECT_LE(most - least, 1);
    // The state of each of 23 layers has 3 tokens of queries, keys and values, and the states of 6 heads, in fp32. The
    // bytes of every part are a multiple of 64, so there are no gaps.
    EXPECT_EQ(state, 23 * 4 * (3 * (2 * 3 * 32 + 6 * 48) + 6 * 32 * 48)) << ranks << " ranks";
  }
}

TEST(ShardTest, PlanShards_SplitsAStateSpaceByValueHeads_WithTheKeyHeadsTheyNeed) {
  ModelSpec c = SmolLm2();
  c.architecture = "bamba";
  for (size_t i = 0; i < c.layers.size(); ++i) c.layers[i].mixer = i % 4 == 3 ? Mixer::kAttention : Mixer::kStateSpace;
  c.recurrence = {.taps = 4, .key_heads = 2, .value_heads = 10, .key_dim = 32, .value_dim = 48};
  for (const size_t ranks : {1, 2, 3, 5}) {
    int64_t heads = 0, least = INT64_MAX, most = 0;
    for (const RankShard& s : PlanShards(c, std::vector<double>(ranks, 1.0))) {
      EXPECT_EQ(s.value_heads.begin, heads);
      EXPECT_EQ(s.key_heads.begin, s.value_heads.begin / 5);
      EXPECT_EQ(s.key_heads.end, (s.value_heads.end + 4) / 5);
      heads = s.value_heads.end;
      least = std::min(least, s.value_heads.size());
      most = std::max(most, s.value_heads.size());
      EXPECT_EQ(ConvolvedChannels(c, s), 2 * 32 * s.key_heads.size() + 48 * s.value_heads.size());
    }
    EXPECT_EQ(heads, 10);
    EXPECT_LE(most - least, 1);
  }
}

TEST(ShardTest, PlanShards_SplitsConvolutionChannelsInWholeUnits) {
  ModelSpec c = SmolLm2();
  c.architecture = "lfm2";
  for (size_t i = 0; i < c.layers.size(); ++i)
    c.layers[i].mixer = i % 3 == 2 ? Mixer::kAttention : Mixer::kShortConvolution;
  c.recurrence = {.taps = 3, .channels = 576};
  int64_t channels = 0, state = 0;
  const auto shards = PlanShards(c, {1, 2});
  for (const RankShard& s : shards) {
    EXPECT_EQ(s.channels.begin, channels);
    EXPECT_EQ(s.channels.size() % kMlpUnit, 0);
    channels = s.channels.end;
    state += StateLayout(c, s).bytes;
  }
  EXPECT_EQ(channels, 576);
  EXPECT_EQ(shards[0].channels.size(), 192) << "of three shares the first has one";
  EXPECT_EQ(state, 20 * 4 * 2 * 576);
}

TEST(ShardTest, KvLayout_LeavesOutLayersWithRecurrentStates) {
  const ModelSpec c = GatedDeltaHybrid();
  const RankShard all = PlanShards(c, {1})[0];
  const KvLayout blocks(c, all, [](int64_t head_dim) { return 16 * head_dim; });
  EXPECT_EQ(blocks.block_bytes, 7 * 2 * 3 * 16 * 64);
}

TEST(ShardTest, PlanShards_SplitsByWholeExperts_WithExpertParallelism) {
  ModelSpec c = SmolLm2();
  c.architecture = "mixtral";
  for (LayerSpec& layer : c.layers) layer.mixture = true;
  c.mixture = {.experts = 7, .experts_per_token = 2, .intermediate_size = 512};
  for (const size_t ranks : {1, 2, 3, 9}) {
    int64_t experts = 0, least = INT64_MAX, most = 0;
    const auto shards = PlanShards(c, std::vector<double>(ranks, 1.0), true);
    const auto cut = PlanShards(c, std::vector<double>(ranks, 1.0));
    for (size_t r = 0; r < ranks; ++r) {
      const RankShard& s = shards[r];
      EXPECT_TRUE(s.whole_experts);
      EXPECT_EQ(s.experts.begin, experts) << ranks << " ranks";
      EXPECT_EQ(s.expert_mlp, (Range{0, 512}));
      EXPECT_EQ(s.heads, cut[r].heads) << "keys and values lie as they do without it";
      EXPECT_EQ(cut[r].experts, (Range{0, 7}));
      EXPECT_FALSE(cut[r].whole_experts);
      experts = s.experts.end;
      least = std::min(least, s.experts.size());
      most = std::max(most, s.experts.size());
    }
    EXPECT_EQ(experts, 7);
    EXPECT_LE(most - least, 1);
    EXPECT_EQ(least == 0, ranks == 9) << "more ranks than experts";
  }
  EXPECT_LT(PlanShards(c, {1, 3}, true)[0].experts.size(), 3) << "by shares";
}

TEST(ShardTest, PlanShards_RefusesExpertParallelism_WhenTheModelHasNoExperts) {
  try {
    PlanShards(SmolLm2(), {1, 1}, true);
    FAIL() << "there is nothing to deal out";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--enable-expert-parallel is for mixtures of experts"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
