#include "coordinator/cluster/group/step_answers.h"

#include <gtest/gtest.h>

#include "comm/wire/messages.h"

namespace quire {
namespace {

using Clock = StepAnswers::Clock;
constexpr auto kAnswerSecond = std::chrono::seconds(1);

StepPlan Plan(StepId step) {
  StepPlan plan;
  plan.step = step;
  plan.decodes = {0, 1};
  plan.chunks = {{2, 0, 5}};
  return plan;
}

StepResult Answer(StepId step, Rank rank, uint64_t plan_hash, TokenId token, uint32_t micros = 0) {
  StepResult result{1, step, rank, plan_hash, 0, micros, micros / 2, {{0, token, 0, {}}}};
  result.token_hash = HashTokens(result.tokens);
  if (rank != 0) result.tokens.clear();
  return result;
}

/// Two ranks with two outstanding plans: of step 1 with the hash 101, and of step 2 with the hash 102.
class StepAnswersTest : public testing::Test {
 protected:
  StepAnswersTest() {
    steps_.Sent(Plan(1), 101, begin_);
    steps_.Sent(Plan(2), 102, begin_ + kAnswerSecond);
  }
  Clock::time_point begin_ = Clock::now();
  StepAnswers steps_{2};
};

TEST_F(StepAnswersTest, FastRank_MayAnswerTheNextStep_BeforeSlowRanksAnswerThisStep) {
  EXPECT_EQ(steps_.oldest().size.tokens, 7);
  EXPECT_EQ(steps_.Answered(1, Answer(1, 1, 101, 7, 10)), 1u);
  EXPECT_EQ(steps_.Answered(1, Answer(2, 1, 102, 8, 900)), 2u);
  EXPECT_EQ(steps_.oldest().Missing(), 0);
  EXPECT_EQ(steps_.Answered(0, Answer(1, 0, 101, 7, 30)), 1u);
  EXPECT_FALSE(steps_.oldest().Missing());
  EXPECT_FALSE(steps_.oldest().Deviating());
  const StepOutcome first = steps_.Take(begin_ + 5 * kAnswerSecond);
  EXPECT_EQ(first.tokens.at(0).token, 7);
  EXPECT_EQ(first.times.compute_micros, 30u) << "of the slowest rank in this step";
  EXPECT_EQ(first.times.swap_micros, 15u);
  EXPECT_EQ(steps_.oldest().id, 2u);
  EXPECT_EQ(steps_.oldest().begin, begin_ + 5 * kAnswerSecond) << "it could not begin before";
  EXPECT_EQ(steps_.oldest().Missing(), 0);
  EXPECT_EQ(steps_.Answered(0, Answer(2, 0, 102, 8, 40)), 2u);
  EXPECT_EQ(steps_.Take(begin_).times.compute_micros, 900u);
  EXPECT_TRUE(steps_.empty());
}

TEST_F(StepAnswersTest, Answer_IsRefused_WhenItIsOutOfOrder) {
  EXPECT_FALSE(steps_.Answered(0, Answer(2, 0, 102, 7))) << "before step 1";
  EXPECT_FALSE(steps_.Answered(0, Answer(1, 0, 102, 7))) << "for another plan";
  EXPECT_FALSE(steps_.Answered(0, Answer(1, 1, 101, 7))) << "in another rank's name";
  EXPECT_EQ(steps_.Expected(0), 1u);
  EXPECT_EQ(steps_.oldest().Missing(), 0);
  EXPECT_TRUE(steps_.Answered(0, Answer(1, 0, 101, 7)));
  EXPECT_FALSE(steps_.Answered(0, Answer(1, 0, 101, 7))) << "twice";
  EXPECT_TRUE(steps_.Answered(0, Answer(2, 0, 102, 7)));
  EXPECT_FALSE(steps_.Answered(0, Answer(3, 0, 103, 7))) << "for a step that was not sent";
  EXPECT_EQ(steps_.Expected(0), 3u);
  EXPECT_EQ(steps_.Expected(1), 1u);
}

TEST_F(StepAnswersTest, Rank_Deviates_WhenItDrewAnotherTokenInTheOldestStep) {
  EXPECT_TRUE(steps_.Answered(0, Answer(1, 0, 101, 7)));
  EXPECT_TRUE(steps_.Answered(0, Answer(2, 0, 102, 8)));
  EXPECT_TRUE(steps_.Answered(1, Answer(1, 1, 101, 8)));
  EXPECT_EQ(steps_.oldest().Deviating(), 1) << "step 2's token is no excuse in step 1";
}

}  // namespace
}  // namespace quire
