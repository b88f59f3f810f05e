// Reads plans of a few models as tables, and compares the plans of all golden models with the weights in their files.
#include "worker/model/weight_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "comm/model/architecture.h"
#include "comm/model/model_files.h"
#include "tests/support/random_model.h"
#include "worker/model/mixer_shape.h"

namespace quire {
namespace {

using testing::ElementsAre;

ModelSpec SpecOf(const test::ModelShape& shape) {
  const test::RandomModel model(shape, 1);
  return ModelFiles::Open(model.path()).spec();
}

std::string TextOf(const Range& range) { return fmt::format("{}-{}", range.begin, range.end); }

// Other roles have no name in the texts of In.
const std::map<Role, std::string> kRoleNames = {{Role::kQuery, "query"},
                                                {Role::kKey, "key"},
                                                {Role::kValue, "value"},
                                                {Role::kQueryBias, "query"},
                                                {Role::kKeyBias, "key"},
                                                {Role::kValueBias, "value"},
                                                {Role::kAttentionGate, "gate of heads"},
                                                {Role::kGate, "gate"},
                                                {Role::kUp, "up"},
                                                {Role::kExpertGate, "gate"},
                                                {Role::kExpertUp, "up"},
                                                {Role::kExpertDown, "down"},
                                                {Role::kRouter, "router"},
                                                {Role::kSharedScale, "shared"},
                                                {Role::kConvInGate, "in gate"},
                                                {Role::kConvOutGate, "out gate"},
                                                {Role::kConvIn, "in"},
                                                {Role::kStateQuery, "query"},
                                                {Role::kStateKey, "key"},
                                                {Role::kStateValue, "value"},
                                                {Role::kStateGate, "gate"},
                                                {Role::kStateBeta, "beta"},
                                                {Role::kStateDecay, "decay"},
                                                {Role::kStateQueryTaps, "query"},
                                                {Role::kStateKeyTaps, "key"},
                                                {Role::kStateValueTaps, "value"}};

/// Returns the parts of what the plan has in this place, such as "query 0-64, key 0-32 | 0-128": for each part the role
/// and the rows, then the columns. Empty if the plan has nothing there.
std::string In(WeightPlace place, const std::vector<PlannedWeight>& plan) {
  const auto weight = std::ranges::find(plan, place, &PlannedWeight::place);
  if (weight == plan.end()) return "";
  std::vector<std::string> parts;
  for (const PlannedPart& part : weight->parts) {
    const auto name = kRoleNames.find(part.role);
    parts.push_back((name == kRoleNames.end() ? "" : name->second + " ") + TextOf(part.rows.range));
  }
  return fmt::format("{} | {}", fmt::join(parts, ", "), TextOf(weight->cols.range));
}

std::vector<WeightPlace> PlacesIn(const std::vector<PlannedWeight>& plan) {
  std::vector<WeightPlace> places;
  for (const PlannedWeight& weight : plan) places.push_back(weight.place);
  return places;
}

// Five heads on two ranks: three and two. Heads have 64 numbers, and all share one key and value head.
TEST(WeightPlanTest, PlanLayer_StacksRowsOfHeadsAndCutsColumns_WhenTwoRanksShareALlama) {
  const ModelSpec spec = SpecOf({.hidden = 128, .heads = 5, .kv_heads = 1, .intermediate = 96});
  const std::vector<RankShard> shards = PlanShards(spec, {1, 1});
  const std::string mlp = TextOf(shards[1].layer(1).mlp);
  const std::vector<PlannedWeight> plan = PlanLayer(spec, shards[1], 1);
  using enum WeightPlace;
  EXPECT_THAT(PlacesIn(plan), ElementsAre(kQkv, kAttentionOut, kMlpIn, kDown, kAttentionNorm, kMlpNorm));
  EXPECT_EQ(In(kQkv, plan), "query 192-320, key 0-64, value 0-64 | 0-128");
  EXPECT_EQ(In(kAttentionOut, plan), "0-128 | 192-320");
  EXPECT_EQ(In(kMlpIn, plan), "gate " + mlp + ", up " + mlp + " | 0-128");
  EXPECT_EQ(In(kDown, plan), "0-128 | " + mlp);
  EXPECT_EQ(In(kMlpNorm, plan), "0-128 | 0-1");
  EXPECT_EQ(shards[0].layer(1).mlp.end, shards[1].layer(1).mlp.begin);
}

TEST(WeightPlanTest, PlanLayer_StacksBiasesAsTheirRows_WhenQueriesKeysAndValuesHaveBiases) {
  const ModelSpec spec = SpecOf({.heads = 4, .kv_heads = 2, .family = "qwen2"});
  const std::vector<PlannedWeight> plan = PlanLayer(spec, PlanShards(spec, {1, 1})[1], 0);
  EXPECT_EQ(In(WeightPlace::kQkv, plan), "query 128-256, key 64-128, value 64-128 | 0-128");
  EXPECT_EQ(In(WeightPlace::kQkvBias, plan), "query 128-256, key 64-128, value 64-128 | 0-1");
}

TEST(WeightPlanTest, PlanLayer_StacksGatesOfHeadsBehindValues_WhenAttentionHasGates) {
  const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/qwen3next");
  const ModelSpec& spec = files.spec();
  const std::vector<PlannedWeight> plan = PlanLayer(spec, PlanShards(spec, {1}).front(), spec.first_attention_layer());
  EXPECT_THAT(In(WeightPlace::kQkv, plan),
              testing::MatchesRegex("query 0-[0-9]+, key .*, value .*, gate of heads 0-.*"));
}

TEST(WeightPlanTest, PlanLayer_StacksGatesAndInputs_WhenALayerIsAShortConvolution) {
  const ModelSpec spec = SpecOf({.family = "lfm2"});
  const auto layer = std::ranges::find(spec.layers, Mixer::kShortConvolution, &LayerSpec::mixer) - spec.layers.begin();
  const RankShard shard = PlanShards(spec, {1, 1})[1];
  const std::vector<PlannedWeight> plan = PlanLayer(spec, shard, layer);
  const std::string channels = TextOf(shard.channels);
  using enum WeightPlace;
  EXPECT_EQ(In(kMixerIn, plan), fmt::format("in gate {}, out gate {}, in {} | 0-128", channels, channels, channels));
  EXPECT_EQ(In(kMixerOut, plan), "0-128 | " + channels);
  EXPECT_EQ(In(kQkv, plan), "");
}

TEST(WeightPlanTest, PlanLayer_OmitsKeysAndValues_WhenALayerReadsThoseOfAnother) {
  const ModelSpec spec = SpecOf({.layers = 4, .family = "gemma4_text"});
  const RankShard shard = PlanShards(spec, {1}).front();
  const auto last = static_cast<int64_t>(spec.layers.size()) - 1;
  EXPECT_THAT(In(WeightPlace::kQkv, PlanLayer(spec, shard, 0)), testing::HasSubstr("value"));
  EXPECT_THAT(In(WeightPlace::kQkv, PlanLayer(spec, shard, last)), testing::Not(testing::HasSubstr("key")));
}

TEST(WeightPlanTest, PlanLayer_TakesKeysForValues_WhenALayersValuesAreItsKeys) {
  const ModelSpec spec = SpecOf({.layers = 4, .family = "gemma4_text", .shares_kv = false});
  const auto layer = std::ranges::find(spec.layers, true, &LayerSpec::values_are_keys) - spec.layers.begin();
  ASSERT_LT(layer, spec.num_layers());
  const std::vector<PlannedWeight> plan = PlanLayer(spec, PlanShards(spec, {1}).front(), layer);
  const std::string keys = TextOf(
      {0, spec.layers[static_cast<size_t>(layer)].head_dim * spec.layers[static_cast<size_t>(layer)].num_kv_heads});
  EXPECT_THAT(In(WeightPlace::kQkv, plan), testing::HasSubstr("key " + keys + ", value " + keys));
}

TEST(WeightPlanTest, PlanLayer_StacksGatesAndUpsOfEachExpert_WhenALayerHasAMixture) {
  const ModelSpec spec = SpecOf({.intermediate = 96, .family = "qwen2_moe"});
  const std::vector<RankShard> shards = PlanShards(spec, {1, 1});
  const std::vector<PlannedWeight> plan = PlanLayer(spec, shards[1], 1);
  const std::string columns = TextOf(shards[1].expert_mlp), shared = TextOf(shards[1].shared_mlp);
  using enum WeightPlace;
  EXPECT_EQ(In(kExpertsIn, plan), "gate " + columns + ", up " + columns + " | 0-128");
  EXPECT_EQ(In(kExpertsDown, plan), "down 0-128 | " + columns);
  EXPECT_EQ(In(kSharedDown, plan), "0-128 | " + shared);
  EXPECT_EQ(In(kRouter, plan), fmt::format("router 0-{}, shared 0-1 | 0-128", spec.mixture.experts));
  EXPECT_EQ(In(kMlpIn, plan), "");
}

TEST(WeightPlanTest, PlanLayer_HasAMatrixOfKeysForEachLocalHead_WhenAttentionIsLatent) {
  const ModelSpec spec = SpecOf({.heads = 5, .intermediate = 128, .family = "deepseek_v3"});
  const RankShard shard = PlanShards(spec, {1, 1})[1];
  const std::vector<PlannedWeight> plan = PlanLayer(spec, shard, 1);
  const LatentAttention& latent = spec.latent;
  const auto heads = [&](int64_t numbers) { return TextOf({shard.heads.begin * numbers, shard.heads.end * numbers}); };
  using enum WeightPlace;
  EXPECT_EQ(In(kQkv, plan), "");
  EXPECT_EQ(In(kLatentQuery, plan), fmt::format("query {} | 0-{}", heads(latent.query_dim()), latent.query_rank));
  EXPECT_EQ(In(kLatentIn, plan), fmt::format("0-{} | 0-128", latent.rank + latent.rotated_dim));
  EXPECT_EQ(In(kLatentKeys, plan), fmt::format("{} | 0-{}", heads(latent.key_dim), latent.rank));
  for (const WeightPlace place : {kLatentKeys, kLatentValues}) {
    const auto weight = std::ranges::find(plan, place, &PlannedWeight::place);
    ASSERT_NE(weight, plan.end());
    EXPECT_EQ(weight->heads, shard.heads.size());
    EXPECT_EQ(weight->turned, place == kLatentKeys) << "the file has the keys' matrices as [key_dim, rank]";
  }
}

// A key head of the gated delta rule goes to a rank with all its value heads.
TEST(WeightPlanTest, PlanLayer_StacksTheMixersInput_InTheOrderOfItsRow) {
  const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/qwen3next");
  const ModelSpec& spec = files.spec();
  const Recurrence& r = spec.recurrence;
  const auto layer = std::ranges::find_if(spec.layers, &LayerSpec::has_state) - spec.layers.begin();
  const RankShard shard = PlanShards(spec, {1, 1})[1];
  const std::vector<PlannedWeight> plan = PlanLayer(spec, shard, layer);
  const std::string keys = TextOf({shard.key_heads.begin * r.key_dim, shard.key_heads.end * r.key_dim});
  const std::string values = TextOf({shard.value_heads.begin * r.value_dim, shard.value_heads.end * r.value_dim});
  const std::string heads = TextOf(shard.value_heads);
  const std::string convolved = fmt::format("query {}, key {}, value {}", keys, keys, values);
  using enum WeightPlace;
  EXPECT_EQ(In(kMixerIn, plan),
            fmt::format("{}, gate {}, beta {}, decay {} | 0-{}", convolved, values, heads, heads, spec.hidden_size));
  EXPECT_EQ(In(kTaps, plan), fmt::format("{} | 0-{}", convolved, r.taps));
  const auto in = std::ranges::find(plan, kMixerIn, &PlannedWeight::place);
  EXPECT_EQ(in->parts[3].rounding, Rounding::kAsAsked);
  EXPECT_EQ(in->parts[4].rounding, Rounding::kNever) << "betas";
  EXPECT_EQ(in->parts[5].rounding, Rounding::kNever) << "decays";
  EXPECT_TRUE(std::ranges::find(plan, kTaps, &PlannedWeight::place)->turned);
}

TEST(WeightPlanTest, Rounding_ProtectsRoutersAndHeads_WhateverUsersAskFor) {
  const ModelSpec spec = SpecOf({.intermediate = 96, .family = "qwen2_moe"});
  const RankShard shard = PlanShards(spec, {1}).front();
  const auto rounding = [](const std::vector<PlannedWeight>& plan, WeightPlace place) {
    std::vector<Rounding> of_parts;
    for (const PlannedPart& part : std::ranges::find(plan, place, &PlannedWeight::place)->parts)
      of_parts.push_back(part.rounding);
    return of_parts;
  };
  const std::vector<PlannedWeight> layer = PlanLayer(spec, shard, 1), outside = PlanOutsideLayers(spec, shard);
  EXPECT_THAT(rounding(layer, WeightPlace::kRouter), ElementsAre(Rounding::kNever, Rounding::kNever));
  EXPECT_THAT(rounding(layer, WeightPlace::kExpertsIn), ElementsAre(Rounding::kAsAsked, Rounding::kAsAsked));
  EXPECT_THAT(rounding(outside, WeightPlace::kHead), ElementsAre(Rounding::kToEightBits));
}

TEST(WeightPlanTest, Stages_PlanTheirOwnLayersAndTheLastOneTheHead) {
  const ModelSpec spec = SpecOf({.layers = 3});
  for (const RankShard& shard : PlanGroup(spec, {.shares = {1}, .stage_layers = {1, 2}})) {
    for (int64_t layer = 0; layer < 3; ++layer)
      EXPECT_EQ(PlanLayer(spec, shard, layer).empty(), !shard.stage.Contains(layer));
    const std::vector<PlannedWeight> outside = PlanOutsideLayers(spec, shard);
    EXPECT_EQ(In(WeightPlace::kHead, outside), shard.stage.end == 3 ? "0-173 | 0-128" : "");
    EXPECT_EQ(In(WeightPlace::kEmbedding, outside), "0-173 | 0-128");
  }
}

TEST(WeightPlanTest, VisitByExpert_VisitsAllWeightsOfAnExpertBeforeThoseOfTheNext) {
  const std::vector<PlannedWeight> plan = {
      {WeightPlace::kExpertsIn}, {WeightPlace::kExpertsDown}, {WeightPlace::kMlpNorm}};
  std::vector<std::pair<WeightPlace, int64_t>> visits;
  VisitByExpert(plan, {4, 6},
                [&](const PlannedWeight& weight, int64_t expert) { visits.emplace_back(weight.place, expert); });
  using enum WeightPlace;
  EXPECT_THAT(visits, ElementsAre(std::pair(kMlpNorm, 0), std::pair(kExpertsIn, 4), std::pair(kExpertsDown, 4),
                                  std::pair(kExpertsIn, 5), std::pair(kExpertsDown, 5)));
}

/// True for weights that are read elsewhere (PlanOutsideLayers).
bool IsReadElsewhere(Role role) {
  return role == Role::kRelativeBias || (role >= Role::kPooledIn && role <= Role::kPooledOutBias);
}

// Without a part of the plan, a backend would compute without the weight; with a part too many, it would not start.
TEST(WeightPlanTest, Plans_HaveEveryWeightOfAFileOnce_ForEachGoldenModel) {
  int num_models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(QUIRE_TEST_DATA) + "/models")) {
    const bool is_model = entry.is_directory() ? std::filesystem::exists(entry.path() / "config.json")
                                               : entry.path().extension() == ".gguf";
    if (!is_model) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const ModelFiles files = ModelFiles::Open(entry.path().string());
    const ModelSpec& spec = files.spec();
    const RankShard shard = PlanShards(spec, {1}).front();
    for (int64_t layer = -1; layer < spec.num_layers(); ++layer) {
      std::vector<Role> planned, there;
      for (const PlannedWeight& weight : layer < 0 ? PlanOutsideLayers(spec, shard) : PlanLayer(spec, shard, layer)) {
        for (const PlannedPart& part : weight.parts) planned.push_back(part.role);
      }
      for (size_t role = 0; role < kNumRoles; ++role) {
        const auto r = static_cast<Role>(role);
        if (IsOfLayer(r) == (layer >= 0) && !IsReadElsewhere(r) && files.Has(r, std::max<int64_t>(layer, 0)))
          there.push_back(r);
      }
      EXPECT_THAT(planned, testing::UnorderedElementsAreArray(there)) << "layer " << layer;
    }
    ++num_models;
  }
  EXPECT_GT(num_models, 30);
}

// Activations have the layouts of QkvWidth and MixerShape.
TEST(WeightPlanTest, Plans_FillTheRowsOfActivations_ForEachGoldenHybrid) {
  for (const char* name : {"qwen3next", "lfm2", "falconh1", "nemotronh", "gemma4", "swa"}) {
    SCOPED_TRACE(name);
    const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
    const ModelSpec& spec = files.spec();
    for (const RankShard& shard : PlanShards(spec, {1, 1})) {
      for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
        for (const PlannedWeight& weight : PlanLayer(spec, shard, layer)) {
          if (weight.place == WeightPlace::kMixerIn) EXPECT_EQ(weight.rows(), MixerShape(spec, shard).in_width);
          if (weight.place == WeightPlace::kMixerOut) EXPECT_EQ(weight.cols.size(), MixerShape(spec, shard).out_width);
          if (weight.place == WeightPlace::kQkv) EXPECT_EQ(weight.rows(), QkvWidth(spec, shard, layer));
          if (weight.place == WeightPlace::kTaps) EXPECT_EQ(weight.rows(), ConvolvedChannels(spec, shard));
        }
      }
    }
  }
}

/// Compares one dimension of a weight on two ranks, which both have it whole or split it. Returns true if they split
/// it.
bool ExpectCovered(const ModelSpec& spec, int64_t layer, const Cut& first, const Cut& second) {
  const int64_t whole = Extent(spec, first.axis, layer);
  EXPECT_EQ(first.range.begin, 0);
  EXPECT_EQ(second.range.end, whole);
  if (first.size() == whole) {
    EXPECT_EQ(second, first);
    return false;
  }
  EXPECT_EQ(first.range.end, second.range.begin);
  return true;
}

TEST(WeightPlanTest, Plans_OfTwoRanksCoverEachMatrixOnce_AndCutItOneWay) {
  const ModelSpec spec = SpecOf({.heads = 4, .kv_heads = 2, .intermediate = 96, .family = "qwen2_moe"});
  const std::vector<RankShard> shards = PlanShards(spec, {1, 1});
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {  // the first has an MLP, the second a mixture
    const std::vector<PlannedWeight> first = PlanLayer(spec, shards[0], layer);
    const std::vector<PlannedWeight> second = PlanLayer(spec, shards[1], layer);
    ASSERT_EQ(PlacesIn(first), PlacesIn(second));
    for (size_t i = 0; i < first.size(); ++i) {
      SCOPED_TRACE(static_cast<int>(first[i].place));
      const bool cuts_cols = ExpectCovered(spec, layer, first[i].cols, second[i].cols);
      for (size_t part = 0; part < first[i].parts.size(); ++part) {
        const bool cuts_rows = ExpectCovered(spec, layer, first[i].parts[part].rows, second[i].parts[part].rows);
        EXPECT_FALSE(cuts_rows && cuts_cols);
      }
    }
  }
}

}  // namespace
}  // namespace quire
