// Tests where the weights of a plan lie in device memory, and with which padding.
#include "worker/cuda/weights/cuda_weight_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "tests/support/random_model.h"

namespace quire {
namespace {

ModelSpec SpecOf(const test::ModelShape& shape) {
  const test::RandomModel model(shape, 1);
  return ModelFiles::Open(model.path()).spec();
}

const PlacedWeight& At(WeightPlace place, const std::vector<PlacedWeight>& weights) {
  return *std::ranges::find(weights, place, &PlacedWeight::place);
}

// Without a member, a weight would be left out on GPUs, unless CudaDecoder reads it by itself.
TEST(CudaWeightLayoutTest, MembersOf_HasEveryPlace_ExceptThoseThatADeviceKeepsElsewhereOrNever) {
  CudaLayerWeights layer;
  CudaWeightPlaces model;
  const auto of_layer = MembersOf(layer), of_model = MembersOf(model);
  std::vector<WeightPlace> without;
  for (int i = 0; i <= static_cast<int>(WeightPlace::kColbertBias); ++i) {
    const auto place = static_cast<WeightPlace>(i);
    if (!of_layer.contains(place) && !of_model.contains(place)) without.push_back(place);
  }
  using enum WeightPlace;
  EXPECT_THAT(without, testing::UnorderedElementsAre(
                           kQkv, kSinks, kRouterBias, kRouterCorrection, kExpertScales, kHeadBias, kLayerScale,
                           // Models with the weights of these places do not run on GPUs.
                           kTokenTypes, kPredictionIn, kPredictionTokenNorm, kPredictionHiddenNorm, kSparse,
                           kSparseBias, kColbert, kColbertBias));
}

TEST(CudaWeightLayoutTest, Rows_AreFollowedByZeros_WhereKernelsReadWholeVectors) {
  // Two ranks share 40 columns of the shared expert, and experts have 104 columns.
  const ModelSpec spec = SpecOf({.intermediate = 104, .family = "qwen2_moe"});
  const RankShard shard = PlanShards(spec, {1, 1})[1];
  const CudaWeightLayout layout(spec, shard, NumberType::kBF16, std::vector<LayerForms>(2), nullptr);
  const std::vector<PlacedWeight>& weights = layout.of_layer(1);
  const auto padded = [](int64_t columns) { return (columns + 15) / 16 * 16; };
  using enum WeightPlace;
  EXPECT_EQ(At(kExpertsIn, weights).height, 2 * padded(shard.expert_mlp.size()));
  EXPECT_EQ(At(kExpertsIn, weights).width, 128);
  EXPECT_EQ(At(kExpertsDown, weights).height, 128);
  EXPECT_EQ(At(kExpertsDown, weights).width, padded(shard.expert_mlp.size()));
  EXPECT_EQ(At(kSharedDown, weights).width, padded(shard.shared_mlp.size()));
  EXPECT_EQ(At(kRouter, weights).height, (spec.mixture.experts + 8) / 8 * 8);
  EXPECT_EQ(At(kExpertsDown, weights).bytes, 128 * padded(shard.expert_mlp.size()) * 2) << "bytes of one expert";
}

TEST(CudaWeightLayoutTest, Qkv_HasAPartForNeighboursOfTheSameForm) {
  const ModelSpec spec = SpecOf({.heads = 4, .kv_heads = 2});
  const RankShard shard = PlanShards(spec, {1}).front();
  const auto parts = [&](const LayerForms& forms) {
    const CudaWeightLayout layout(spec, shard, NumberType::kBF16, {forms, forms}, nullptr);
    std::vector<std::string> texts;
    for (const QkvPart& part : layout.layers[1].qkv)
      texts.push_back(std::to_string(part.first) + "+" + std::to_string(part.rows) +
                      (part.matrix.quantized ? " quantised" : ""));
    return texts;
  };
  LayerForms forms;
  EXPECT_THAT(parts(forms), testing::ElementsAre("0+512"));
  forms.Set(Role::kValue, NumberType::kQ8_0);
  EXPECT_THAT(parts(forms), testing::ElementsAre("0+384", "384+128 quantised"));
  forms.Set(Role::kQuery, NumberType::kQ8_0);
  EXPECT_THAT(parts(forms), testing::ElementsAre("0+256 quantised", "256+128", "384+128 quantised"));
}

TEST(CudaWeightLayoutTest, MayStayQuantized_IsTrueForMatricesOfAttentionMlpsAndExpertsOnly) {
  using enum WeightPlace;
  for (const WeightPlace place : {kQkv, kAttentionOut, kLatentIn, kLatentQuery, kMlpIn, kDown, kExpertsIn, kSharedDown})
    EXPECT_TRUE(MayStayQuantized(place)) << static_cast<int>(place);
  for (const WeightPlace place : {kLatentKeys, kMixerIn, kMixerOut, kRouter, kInputGate, kHead, kEmbedding, kDownBias})
    EXPECT_FALSE(MayStayQuantized(place)) << static_cast<int>(place);
}

// A head that is the embedding takes no memory of its own, and each rank's head begins with its first token.
TEST(CudaWeightLayoutTest, Head_IsAPartOfTheEmbedding_WhenTheModelTiesThem) {
  const ModelSpec spec = SpecOf({.vocab = 1000, .tied = true});
  const RankShard shard = PlanShards(spec, {1, 1})[1];
  ASSERT_GT(shard.vocab.begin, 0);
  const std::vector<LayerForms> forms(2);
  const CudaWeightLayout counted(spec, shard, NumberType::kBF16, forms, nullptr);
  std::vector<std::byte> memory(static_cast<size_t>(counted.bytes()));
  const CudaWeightLayout layout(spec, shard, NumberType::kBF16, forms, memory.data());
  EXPECT_EQ(layout.bytes(), counted.bytes());
  EXPECT_EQ(static_cast<std::byte*>(layout.head) - static_cast<std::byte*>(layout.embedding),
            shard.vocab.begin * spec.hidden_size * 2);
}

}  // namespace
}  // namespace quire
