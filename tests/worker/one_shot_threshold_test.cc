#include "worker/cuda/device/one_shot_threshold.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

TEST(OneShotThresholdTest, Threshold_EndsBeforeTheFirstSizeAtWhichOneShotIsSlower) {
  const std::vector<SumTiming> timings = {{8192, 5, 20}, {16384, 7, 20}, {32768, 21, 20}, {65536, 20, 25}};
  EXPECT_EQ(OneShotThreshold(timings), 16384);  // sizes after the first slower size are not trusted
  EXPECT_EQ(OneShotThreshold(std::span(timings).first(2)), 16384);
  EXPECT_EQ(OneShotThreshold(std::span(timings).subspan(2, 1)), 0);
  EXPECT_EQ(OneShotThreshold({}), 0);
  EXPECT_EQ(OneShotThreshold(std::vector<SumTiming>{{4096, 20, 20}}), 4096);
}

TEST(OneShotThresholdTest, DefaultThreshold_FitsTheSlots_ForTwoToEightRanks) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    EXPECT_GT(DefaultOneShotThreshold(ranks), 0) << ranks;
    EXPECT_LE(DefaultOneShotThreshold(ranks), kOneShotCapacity) << ranks;
  }
  EXPECT_LT(DefaultOneShotThreshold(8), DefaultOneShotThreshold(4));
}

}  // namespace
}  // namespace quire
