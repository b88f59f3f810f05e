#include "coordinator/cluster/group/patience.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PatienceTest, SilencePatience_StaysBelowTwoSeconds_WhenThreadsAreWokenInTime) {
  EXPECT_EQ(SilencePatience(seconds(0)), milliseconds(1500));
  EXPECT_LT(SilencePatience(milliseconds(50)), milliseconds(1800));
}

TEST(PatienceTest, SilencePatience_GrowsWithWakeUpDelays_UpToABound) {
  EXPECT_EQ(SilencePatience(milliseconds(700)), milliseconds(4300));
  EXPECT_EQ(SilencePatience(seconds(100)), milliseconds(11500));
}

TEST(PatienceTest, FirstBeatPatience_Is20Seconds) { EXPECT_EQ(FirstBeatPatience(), seconds(20)); }

TEST(PatienceTest, StepPatience_IsTwentyTimesTheUsualStep_AndAtLeastFiveSeconds) {
  EXPECT_EQ(StepPatience(0, 1, seconds(0)), seconds(120)) << "nothing is known before the first";
  EXPECT_EQ(StepPatience(0.001, 1, seconds(0)), seconds(5));
  EXPECT_EQ(StepPatience(0.001, 1000, seconds(0)), seconds(20));
  EXPECT_EQ(StepPatience(1, 1000, seconds(0)), seconds(120)) << "and no longer than the first, however slow they were";
  EXPECT_EQ(StepPatience(1e300, 1000, seconds(0)), seconds(120));
}

TEST(PatienceTest, StepPatience_GrowsWithTimeWithoutACore_UpToABound) {
  EXPECT_EQ(StepPatience(0.001, 1, seconds(7)), seconds(12));
  EXPECT_EQ(StepPatience(0.001, 1, seconds(1000)), seconds(65));
}

}  // namespace
}  // namespace quire
