#include "coordinator/core/schedule/learned_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

/// Returns the true cost of a token in seconds, given the number of tokens before it.
double Truth(double context) { return 0.0005 + 5e-7 * context; }

TEST(LearnedCostTest, Cost_IsZero_BeforeTheFirstStep) {
  EXPECT_EQ(LearnedCost().TokenSeconds(0), 0);
  EXPECT_EQ(LearnedCost().RecomputeSeconds(1000), 0);
}

TEST(LearnedCostTest, Observe_IgnoresStepsOfFewTokens) {
  LearnedCost cost;
  cost.Observe(LearnedCost::kFewTokens - 1, 0, 0, 1, 0);
  EXPECT_EQ(cost.TokenSeconds(0), 0);
  cost.Observe(LearnedCost::kFewTokens, 0, 0, 3.2, 0);
  EXPECT_DOUBLE_EQ(cost.TokenSeconds(0), 0.1);
}

TEST(LearnedCostTest, Observe_LearnsTheCostOfTokensAndContext_DespiteNoise) {
  std::mt19937 random(1);
  std::normal_distribution<> noise(1, 0.05);
  LearnedCost cost;
  for (int round = 0; round < 3; ++round) {
    for (int start = 0; start < 8000; start += 500) {
      const double context = start + 250;
      cost.Observe(500, context, 0, 500 * Truth(context) * noise(random), 0);
      if (round == 0 || start <= 1000) continue;
      EXPECT_NEAR(cost.TokenSeconds(start), Truth(start), 0.25 * Truth(start)) << start;
    }
  }
  EXPECT_NEAR(cost.RecomputeSeconds(8000), 8000 * Truth(4000), 0.25 * 8000 * Truth(4000));
}

TEST(LearnedCostTest, CostOfContext_IsRemembered_WhileAllContextsAreOfTheSameLength) {
  LearnedCost cost;
  for (int start = 0; start < 8000; start += 500) cost.Observe(500, start + 250, 0, 500 * Truth(start + 250), 0);
  for (int i = 0; i < 1000; ++i) cost.Observe(100, 8000, 0, 100 * Truth(8000), 0);
  EXPECT_NEAR(cost.TokenSeconds(0), Truth(0), 0.5 * Truth(0));
  EXPECT_NEAR(cost.TokenSeconds(16000), Truth(16000), 0.25 * Truth(16000));
}

TEST(LearnedCostTest, Observe_LearnsFromFewTokens_WhenTheirContextsAreLong) {
  LearnedCost cost;
  for (int start = 0; start < 8000; start += 500) cost.Observe(500, start + 250, 0, 500 * Truth(start + 250), 0);
  ASSERT_NEAR(cost.Weight(8000), Truth(8000) / Truth(0), 3);
  for (int i = 0; i < 50; ++i) cost.Observe(20, 8000, 0, 20 * 3 * Truth(8000), 0);
  EXPECT_NEAR(cost.TokenSeconds(8000), 3 * Truth(8000), 0.1 * Truth(8000));
}

TEST(LearnedCostTest, Weight_IsOne_ForShortContextsAndBeforeTheFirstStep) {
  LearnedCost cost;
  EXPECT_EQ(cost.Weight(100'000), 1);
  for (int start = 0; start < 8000; start += 500) cost.Observe(500, start + 250, 0, 500 * Truth(start + 250), 0);
  EXPECT_EQ(cost.Weight(200), 1);
  EXPECT_GT(cost.Weight(100'000), 50);
}

TEST(LearnedCostTest, CostOfLongContexts_IsNotLearned_FromNoiseOfShortContexts) {
  std::mt19937 random(1);
  std::normal_distribution<> noise(1, 0.3), length(100, 5);
  LearnedCost cost;
  for (int i = 0; i < 100; ++i) {
    cost.Observe(100, length(random), 0, 100 * 0.001 * noise(random), 0);
    EXPECT_LT(cost.TokenSeconds(8000), 0.02);
  }
}

TEST(LearnedCostTest, Cost_StaysPositive_WhenTheFitWouldBeNegative) {
  LearnedCost cost;
  for (int i = 0; i < 20; ++i) cost.Observe(100, i % 2 == 0 ? 8000 : 4000, 0, i % 2 == 0 ? 1 : 0.1, 0);
  EXPECT_GT(cost.TokenSeconds(0), 0);
}

TEST(LearnedCostTest, TokenSeconds_LeavesOutTheTimeOfSwaps) {
  LearnedCost cost;
  cost.Observe(100, 0, 10, 3, 2);
  EXPECT_DOUBLE_EQ(cost.TokenSeconds(0), 0.01);
  EXPECT_DOUBLE_EQ(cost.SwapSeconds(10), 4) << "out and back";
}

TEST(LearnedCostTest, MovingIsQuicker_ComparesMovingBlocksWithComputingTheirTokens) {
  LearnedCost cost;
  EXPECT_FALSE(cost.MovingIsQuicker(1, 0, 16)) << "nothing is known";
  cost.Observe(100, 50, 0, 0.1, 0);  // 1 ms a token
  cost.SetBlockSeconds(0.015);
  EXPECT_TRUE(cost.MovingIsQuicker(2, 0, 32));
  cost.SetBlockSeconds(0.017);
  EXPECT_FALSE(cost.MovingIsQuicker(2, 0, 32));
}

TEST(LearnedCostTest, BlocksBeside_CountsTheBlocksMovedWithinAPartOfTheStepsTime) {
  LearnedCost cost;
  cost.SetBlockSeconds(0.001);
  EXPECT_EQ(cost.BlocksBeside(1, 64), 1) << "before the first step";
  cost.Observe(1, 0, 4, 0.104, 0.004);  // moves do not count as time of a step
  EXPECT_EQ(cost.BlocksBeside(1, 64), 5);
  EXPECT_EQ(cost.BlocksBeside(1, 3), 3);
  cost.Observe(100, 0, 0, 0.1, 0);  // 1 ms a token
  EXPECT_EQ(cost.BlocksBeside(400, 64), 20) << "a long step has time for more";
}

}  // namespace
}  // namespace quire
