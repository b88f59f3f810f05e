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

TEST(PatienceTest, FirstBeatPatience_Is20Seconds_AndGrowsWithWakeUpDelays_UpToABound) {
  EXPECT_EQ(FirstBeatPatience(seconds(0)), seconds(20));
  EXPECT_EQ(FirstBeatPatience(seconds(1)), seconds(24));
  EXPECT_EQ(FirstBeatPatience(seconds(100)), seconds(30));
}

TEST(PatienceTest, LostFramePatience_GrowsWithWakeUpDelaysAndTimeWithoutACore_UpToBounds) {
  EXPECT_EQ(LostFramePatience(seconds(0), seconds(0)), milliseconds(900));
  EXPECT_EQ(LostFramePatience(milliseconds(200), seconds(3)), milliseconds(4700));
  EXPECT_EQ(LostFramePatience(seconds(100), seconds(0)), milliseconds(10'900));
  EXPECT_EQ(LostFramePatience(seconds(0), seconds(1000)), milliseconds(60'900));
}

TEST(PatienceTest, DelayOfStart_GrowsWithWakeUpDelays_UpToABound) {
  EXPECT_EQ(DelayOfStart(seconds(0)), seconds(0));
  EXPECT_EQ(DelayOfStart(milliseconds(250)), seconds(10));
  EXPECT_EQ(DelayOfStart(seconds(100)), seconds(40));
}

TEST(PatienceTest, StepPatience_IsTwentyTimesTheUsualStep_AndAtLeastFiveSeconds) {
  EXPECT_EQ(StepPatience(0, seconds(0)), seconds(120)) << "nothing is known before the first";
  EXPECT_EQ(StepPatience(0.001, seconds(0)), seconds(5));
  EXPECT_EQ(StepPatience(1, seconds(0)), seconds(20));
  EXPECT_EQ(StepPatience(1000, seconds(0)), seconds(120)) << "and no longer than the first, however slow they were";
  EXPECT_EQ(StepPatience(1e300, seconds(0)), seconds(120));
}

TEST(PatienceTest, StepPatience_GrowsWithTimeWithoutACore_UpToABound) {
  EXPECT_EQ(StepPatience(0.001, seconds(7)), seconds(12));
  EXPECT_EQ(StepPatience(0.001, seconds(1000)), seconds(65));
}

StepPlan Prompt(int start, int count) {
  StepPlan plan;
  plan.chunks = {{0, start, count}};
  plan.position_sum = static_cast<uint64_t>(start);
  return plan;
}

TEST(PatienceTest, UsualTime_CoversAttentionOverLongTexts_AfterShortOnes) {
  UsualTime usual;
  EXPECT_EQ(usual.Of(SizeOf(Prompt(0, 100))), 0);
  const auto seconds_of = [](const StepSize& size) { return 1e-3 * size.tokens + 1e-6 * size.pairs; };
  usual.Observe(SizeOf(Prompt(0, 100)), seconds_of(SizeOf(Prompt(0, 100))));
  for (const int count : {1, 10, 1000, 10'000}) {
    EXPECT_GE(usual.Of(SizeOf(Prompt(0, count))), seconds_of(SizeOf(Prompt(0, count)))) << count;
    EXPECT_GE(usual.Of(SizeOf(Prompt(50'000, count))), seconds_of(SizeOf(Prompt(50'000, count)))) << count;
  }
  EXPECT_NEAR(usual.Of(SizeOf(Prompt(0, 100))), seconds_of(SizeOf(Prompt(0, 100))), 1e-9);
}

TEST(PatienceTest, UsualTime_OfDecodes_DoesNotGrowWithTheirContext_BeforeAPrompt) {
  UsualTime usual;
  StepPlan decode;
  decode.decodes = {3};
  decode.position_sum = 10;
  usual.Observe(SizeOf(decode), 0.02);
  decode.position_sum = 10'000;
  EXPECT_DOUBLE_EQ(usual.Of(SizeOf(decode)), 0.02);
}

TEST(PatienceTest, UsualTime_CoversManyDecodes_AfterALongContext) {
  UsualTime usual;
  const StepPlan prompt = Prompt(29'500, 500);
  usual.Observe(SizeOf(prompt), 1e-6 * SizeOf(prompt).pairs);
  StepPlan few, many;
  few.decodes = {1};
  few.position_sum = 10;
  for (int i = 0; i < 100; ++i) usual.Observe(SizeOf(few), 0.02);
  for (SlotId slot = 0; slot < 250; ++slot) many.decodes.push_back(slot);
  many.position_sum = 250 * 30'000;
  many.chunks = {{300, 10, 5}};
  many.position_sum += 10;
  EXPECT_NEAR(usual.Of(SizeOf(many)), 1e-6 * 250 * 30'000, 0.1);
}

TEST(PatienceTest, SizeOfSlices_IsTheirPartOfTheWholePrompt) {
  StepPlan parts;
  parts.slices = {{0, 0, 600, 300, 4}, {1, 600, 600, 300, 4}};
  const StepSize whole = SizeOf(Prompt(0, 300)), sum = SizeOf(parts);
  EXPECT_DOUBLE_EQ(sum.tokens, whole.tokens);
  EXPECT_DOUBLE_EQ(sum.pairs, whole.pairs);
}

}  // namespace
}  // namespace quire
