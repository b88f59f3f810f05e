#include "comm/model/stage_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/base/group_cut.h"
#include "comm/model/architecture.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

ModelFiles StagedFiles(const std::string& name) {
  return ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
}

TEST(GroupCutTest, Ranks_AreNumberedFromTheLastStage) {
  const GroupCut cut{{1, 2}, {5, 4, 3}};
  EXPECT_EQ(cut.num_ranks(), 6);
  for (Rank rank = 0; rank < 6; ++rank) EXPECT_EQ(cut.RankAt(cut.StageOf(rank), cut.PlaceOf(rank)), rank);
  EXPECT_EQ(cut.StageOf(0), 2) << "rank 0 draws";
  EXPECT_EQ(cut.StageOf(5), 0);
  EXPECT_EQ(cut.PlaceOf(3), 1);
  const GroupCut whole{{1, 1}, {}};
  EXPECT_EQ(whole.num_ranks(), 2);
  EXPECT_EQ(whole.StageOf(1), 0);
}

TEST(StagePlanTest, Stages_CoverAllLayers_AndTheStageOfALargeHeadHasFewerLayers) {
  ModelFiles files = StagedFiles("smollm3");  // five layers
  for (int stages = 2; stages <= 5; ++stages) {
    const std::vector<int32_t> layers = PlanStages(files, stages);
    EXPECT_EQ(layers.size(), static_cast<size_t>(stages));
    EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 5);
    EXPECT_EQ(StagesProblem(files.spec(), layers), "");
    EXPECT_LE(layers.back(), layers.front());
  }
  EXPECT_TRUE(PlanStages(files, 1).empty());
  const std::vector<int32_t> before = PlanStages(files, 2);
  files.CloseFiles();
  EXPECT_EQ(PlanStages(files, 2), before) << "the coordinator closes the files";
}

TEST(StagePlanTest, PlanStages_MakesTheLargestStageAsSmallAsPossible) {
  for (const char* name : {"smollm3", "mixtral"}) {
    const ModelFiles files = StagedFiles(name);
    const ModelSpec& spec = files.spec();
    const double planned = PartOfLargestStage(files, PlanStages(files, 2));
    const std::vector<int64_t> numbers = MatrixNumbersOfLayers(spec);
    const auto head = static_cast<double>(spec.vocab_size * spec.hidden_size);
    const double all = head + static_cast<double>(LayerMatrixNumbers(spec));
    double first = 0, best = 1;
    for (int32_t layers = 1; layers < spec.num_layers(); ++layers) {
      first += static_cast<double>(numbers[static_cast<size_t>(layers) - 1]);
      const double part = std::max(first, all - first) / all;
      EXPECT_NEAR(PartOfLargestStage(files, {layers, static_cast<int32_t>(spec.num_layers()) - layers}), part, 1e-12);
      best = std::min(best, part);
    }
    EXPECT_NEAR(planned, best, 1e-12) << name;
    EXPECT_EQ(PartOfLargestStage(files, {}), 1);
  }
}

TEST(StagePlanTest, Stages_MayHaveNoLayerWithKeysAndValues) {
  const ModelFiles hybrid = StagedFiles("lfm2");  // one layer of four has attention
  for (const int stages : {2, 3, 4}) EXPECT_EQ(StagesProblem(hybrid.spec(), PlanStages(hybrid, stages)), "");
  EXPECT_EQ(StagesProblem(hybrid.spec(), {1, 1, 1, 1}), "");
}

TEST(StagePlanTest, PlanStages_ThrowsAnErrorWithTheReason_WhenTheModelCannotBeCut) {
  EXPECT_NE(ErrorThrownBy([] { PlanStages(StagedFiles("gqa"), 4); }).find("cut into 1 to 3 stages"), std::string::npos);
  // Layers 4 and 5 use the keys and values of earlier layers.
  const ModelFiles shares = StagedFiles("gemma4");
  EXPECT_EQ(StagesProblem(shares.spec(), PlanStages(shares, 2)), "");
  EXPECT_NE(StagesProblem(shares.spec(), {5, 1}).find("reads keys and values of a layer in another stage"),
            std::string::npos);
  EXPECT_NE(ErrorThrownBy([] { PlanStages(StagedFiles("gemma4whole"), 2); }).find("cut into 1 to 1 stages"),
            std::string::npos);
  EXPECT_NE(StagesProblem(StagedFiles("gqa").spec(), {2, 2}).find("do not make the model's 3"), std::string::npos);
  EXPECT_NE(StagesProblem(StagedFiles("gqa").spec(), {4, -1}).find("do not make the model's 3"), std::string::npos);
}

}  // namespace
}  // namespace quire
