// Tests how the engine recovers when its worker group is lost: which request is blamed when losses repeat, and what
// happens to requests when the new group has a smaller or larger pool.
#include <gtest/gtest.h>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::MakeRequest;
using Tokens = std::vector<TokenId>;

class RecoveryTest : public ::testing::Test {
 protected:
  void Make(int num_blocks) {
    EngineOptions options;
    options.scheduler.max_running = 8;
    options.scheduler.max_step_tokens = 64;
    options.scheduler.lookahead_tokens = 0;
    options.blocks.num_blocks = num_blocks + 1;
    options.blocks.block_size = 4;
    options.blocks.prefix_caching = false;
    options.max_model_len = 200;
    engine_ = std::make_unique<Engine>(options);
    engine_->StartEpoch(1);
  }

  std::unique_ptr<Request> New(RequestId id, int num_prompt, int max_tokens) {
    const Tokens prompt(static_cast<size_t>(num_prompt), static_cast<TokenId>(id));
    auto request = MakeRequest(id, prompt, max_tokens, sinks_[id]);
    request->arrival_seconds = static_cast<double>(id);
    return request;
  }

  /// Serves until no request is left. The workers die, and the step is lost, whenever a plan is sent while the request
  /// `poison` runs.
  void ServeWithPoison(RequestId poison) {
    for (int rounds = 0; !engine_->idle(); ++rounds) {
      ASSERT_LT(rounds, 500) << "no end in sight";
      const StepPlan* plan = engine_->NextPlan(0);
      ASSERT_NE(plan, nullptr);
      const bool deadly = std::ranges::any_of(engine_->scheduler().running(),
                                              [&](const Request* request) { return request->id == poison; });
      engine_->scheduler().CheckIntegrity();
      if (deadly) {
        ++deaths_;
        engine_->StartEpoch(engine_->epoch() + 1);
        continue;
      }
      std::vector<SampledToken> tokens;
      for (const StepMember& member : engine_->scheduler().outstanding().at(0).members) {
        if (member.draws) tokens.push_back({member.slot, 9, 0, {}});
      }
      ASSERT_TRUE(engine_->Fits(tokens));
      engine_->CommitStep(tokens);
    }
  }

  std::unique_ptr<Engine> engine_;
  std::map<RequestId, test::CollectingSink> sinks_;
  int deaths_ = 0;
};

TEST_F(RecoveryTest, RequestThatKillsWorkers_Fails_AndTheOtherRequestsFinish) {
  Make(50);
  for (RequestId id = 1; id <= 5; ++id) ASSERT_FALSE(engine_->Submit(New(id, 6, 4)));
  ServeWithPoison(3);
  EXPECT_EQ(deaths_, 2 + 3);  // two losses with other requests, then three losses alone
  for (RequestId id = 1; id <= 5; ++id) {
    if (id == 3) {
      EXPECT_EQ(sinks_[id].error, "the workers were lost 3 times while they computed this request alone");
    } else {
      EXPECT_EQ(sinks_[id].error, "") << id;
      EXPECT_EQ(sinks_[id].choices[0].tokens, Tokens(4, 9)) << id;
    }
  }
}

TEST_F(RecoveryTest, Losses_CountAgainstARequest_OnlyWhenItWasComputedAlone) {
  Make(50);
  for (RequestId id = 1; id <= 2; ++id) ASSERT_FALSE(engine_->Submit(New(id, 6, 4)));
  ServeWithPoison(1);
  EXPECT_EQ(deaths_, 2 + 3) << "the two in which both were computed say nothing of either";
  EXPECT_NE(sinks_[1].error, "");
  EXPECT_EQ(sinks_[2].choices[0].tokens, Tokens(4, 9));
}

TEST_F(RecoveryTest, RunningRequest_IsNotBlamed_WhenTheLostStepDidNotComputeIt) {
  Make(90);
  ASSERT_FALSE(engine_->Submit(New(1, 150, 4)));
  ASSERT_FALSE(engine_->Submit(New(2, 150, 4)));
  for (EpochId epoch = 2; epoch <= 4; ++epoch) {
    engine_->NextPlan(0);  // a chunk of request 1 fills the step
    engine_->StartEpoch(epoch);
  }
  EXPECT_NE(sinks_[1].error, "");
  EXPECT_EQ(engine_->requests().at(2)->num_lost_epochs, 0);
  ServeWithPoison(0);
  EXPECT_EQ(sinks_[2].choices[0].tokens, Tokens(4, 9));
}

TEST_F(RecoveryTest, SmallerPool_EndsOnlyRequestsThatNeverFit) {
  Make(50);
  ASSERT_FALSE(engine_->Submit(New(1, 60, 20)));
  ASSERT_FALSE(engine_->Submit(New(2, 6, 4)));
  EXPECT_EQ(engine_->BlocksNeeded(0), 1 + 20);
  engine_->NextPlan(0);
  engine_->StartEpoch(2, {20, 0});  // 19 of the 20 blocks are usable
  engine_->scheduler().CheckIntegrity();
  EXPECT_NE(sinks_[1].error.find("19 blocks"), std::string::npos) << sinks_[1].error;
  EXPECT_EQ(engine_->blocks().num_usable(), 19);
  ServeWithPoison(0);
  EXPECT_EQ(sinks_[2].choices[0].tokens, Tokens(4, 9));
}

TEST_F(RecoveryTest, LargerPool_AcceptsARequest_ThatTheSmallerPoolRefused) {
  Make(4);
  EXPECT_TRUE(engine_->Submit(New(1, 60, 20)));
  engine_->StartEpoch(2, {51, 0});
  EXPECT_FALSE(engine_->Submit(New(2, 60, 20)));
  ServeWithPoison(0);
  EXPECT_EQ(sinks_[2].choices[0].tokens.size(), 20u);
}

}  // namespace
}  // namespace quire
