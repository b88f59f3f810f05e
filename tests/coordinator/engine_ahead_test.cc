// Tests of planning ahead: the engine plans a step while the step before is still outstanding.
#include <gtest/gtest.h>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;
using Slots = std::vector<SlotId>;
using Tokens = std::vector<TokenId>;

/// An engine with a few blocks of 4 tokens. The test chooses each token that the "model" samples.
class EngineAheadTest : public testing::Test {
 protected:
  void Make(int usable_blocks, int max_step_tokens = 64) {
    options_.scheduler.max_step_tokens = max_step_tokens;
    options_.scheduler.max_running = 8;
    options_.scheduler.lookahead_tokens = 0;
    options_.scheduler.preemption = PreemptionMode::kRecompute;
    options_.blocks.num_blocks = usable_blocks + 1;
    options_.blocks.block_size = 4;
    options_.blocks.watermark = 0;
    options_.max_model_len = 1000;
    engine_ = std::make_unique<Engine>(options_);
  }

  std::unique_ptr<Request> New(RequestId id, int prompt, int max_tokens, int n = 1) {
    return MakeRequest(id, Tokens(static_cast<size_t>(prompt), static_cast<TokenId>(id)), max_tokens, sinks_[id], n);
  }
  void Submit(RequestId id, int prompt, int max_tokens, int n = 1) {
    ASSERT_FALSE(engine_->Submit(New(id, prompt, max_tokens, n)));
  }

  /// Returns the next plan, or an empty plan when there is none.
  StepPlan Plan() {
    const StepPlan* plan = engine_->NextPlan(0);
    engine_->scheduler().CheckIntegrity();
    return plan != nullptr ? *plan : StepPlan{};
  }

  /// Commits the result of the oldest outstanding plan: the same token for every sample.
  void Commit(TokenId token) {
    std::vector<SampledToken> drawn;
    for (const StepMember& m : engine_->scheduler().outstanding().at(0).members) {
      if (m.draws) drawn.push_back({m.slot, token, 0, {{token, -1.0f}, {token + 1, -2.0f}, {token + 2, -3.0f}}});
    }
    ASSERT_TRUE(engine_->Fits(drawn));
    engine_->CommitStep(drawn);
    engine_->scheduler().CheckIntegrity();
  }

  const Tokens& Got(RequestId id, int choice = 0) { return sinks_[id].choices[choice].tokens; }

  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
};

TEST_F(EngineAheadTest, Decode_IsPlanned_BeforeItsTokenIsKnown) {
  Make(10);
  Submit(1, 7, 5);
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 0, 7}}));
  StepPlan plan = Plan();
  EXPECT_EQ(plan.step, 2u);
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_EQ(plan.position_sum, 7u);
  EXPECT_TRUE(Plan().empty()) << "two are outstanding";
  Commit(20);
  plan = Plan();
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_EQ(plan.tables, (std::vector<TableEdit>{{0, 2, 3}})) << "position 8 begins the third block";
  Commit(21);
  Commit(22);
  EXPECT_EQ(Got(1), (Tokens{20, 21, 22}));
}

TEST_F(EngineAheadTest, PromptChunks_ArePlannedAhead) {
  Make(20, 8);
  Submit(1, 20, 2);
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 0, 8}}));
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 8, 8}}));
  Commit(0);
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 16, 4}}));
  Commit(0);
  EXPECT_EQ(Plan().decodes, (Slots{0}));
  Commit(20);
  Commit(21);
  EXPECT_EQ(Got(1), (Tokens{20, 21}));
}

TEST_F(EngineAheadTest, Engine_PlansNoStep_BeyondMaxTokens) {
  Make(10);
  Submit(1, 6, 3);
  EXPECT_FALSE(Plan().empty());
  EXPECT_FALSE(Plan().empty());
  Commit(20);
  EXPECT_FALSE(Plan().empty());
  Commit(21);
  EXPECT_TRUE(Plan().empty()) << "the last token is being drawn";
  Commit(22);
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kLength);
  EXPECT_EQ(engine_->stats().computed_tokens, 6 + 2);
  EXPECT_TRUE(engine_->idle());
}

TEST_F(EngineAheadTest, TokensOfAnEndedSequence_AreDropped_WhenAStepAheadDrawsThem) {
  Make(10);
  auto request = New(1, 6, 10);
  request->limits.stop_token_ids = {42};
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Submit(2, 6, 10);
  Plan();
  Plan();
  Commit(20);
  EXPECT_EQ(Plan().decodes, (Slots{0, 1}));
  std::vector<SampledToken> drawn = {{0, 42, 0, {}}, {1, 21, 0, {}}};
  engine_->CommitStep(drawn);  // the outstanding step 3 still contains both sequences
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kStop);
  EXPECT_EQ(engine_->requests().size(), 1u);
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.released, (Slots{0}));
  EXPECT_EQ(plan.decodes, (Slots{1}));
  Commit(22);  // two sampled tokens; the first is of the ended sequence
  EXPECT_EQ(Got(1), (Tokens{20}));
  EXPECT_EQ(Got(2), (Tokens{20, 21, 22}));
  EXPECT_EQ(engine_->stats().generated_tokens, 2 + 2 + 1);
}

TEST_F(EngineAheadTest, IdleEngine_StillAwaitsTheOutstandingStep) {
  Make(10);
  Submit(1, 6, 10);
  sinks_[1].stop_after = 1;
  Plan();
  Plan();
  Commit(20);
  EXPECT_TRUE(engine_->idle());
  EXPECT_EQ(engine_->blocks().num_free(), 10);
  EXPECT_EQ(engine_->num_outstanding(), 1);
  EXPECT_TRUE(Plan().empty());
  Commit(21);
  EXPECT_EQ(engine_->num_outstanding(), 0);
  EXPECT_EQ(Got(1), (Tokens{20}));
}

TEST_F(EngineAheadTest, BlocksOfACancelledRequest_AreReusedImmediately_WhileAStepIsOutstanding) {
  Make(4);
  Submit(1, 14, 3);
  Plan();
  Submit(2, 15, 2);
  EXPECT_TRUE(engine_->NextPlan(0)->added.empty()) << "no room beside the first";
  engine_->Cancel(1);
  engine_->scheduler().CheckIntegrity();
  EXPECT_EQ(engine_->blocks().num_free(), 4);
  Commit(20);
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.released, (Slots{0}));
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].blocks.size(), 4u);
  Commit(21);
  Commit(22);
  EXPECT_TRUE(Got(1).empty());
  EXPECT_EQ(Got(2), (Tokens{22}));
}

TEST_F(EngineAheadTest, Engine_PreemptsNoRequest_WhileAStepIsOutstanding) {
  Make(4);
  Submit(1, 7, 6);  // this request grows to 3 blocks
  Submit(2, 7, 6);
  Plan();
  Plan();  // both requests will hold 8 computed tokens: the pool is full
  Commit(20);
  EXPECT_TRUE(Plan().empty()) << "somebody has to go, but not now";
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 0);
  Commit(21);
  const StepPlan plan = Plan();
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 1);
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_EQ(plan.released, (Slots{1}));
  while (!engine_->idle()) {
    Plan();
    Commit(30);
  }
  EXPECT_EQ(Got(1), (Tokens{20, 21, 30, 30, 30, 30}));
  EXPECT_EQ(Got(2), (Tokens{20, 21, 30, 30, 30, 30}));
}

TEST_F(EngineAheadTest, Sequence_IsNotPassedOverTwice_WhenAPlanMadeAheadHadNoRoomForIt) {
  Make(5);
  Submit(1, 5, 8);  // 2 blocks with room for 3 more tokens
  Submit(2, 8, 6);  // 2 blocks, both full
  Submit(3, 3, 4);  // 1 block
  EXPECT_EQ(Plan().chunks.size(), 3u);
  EXPECT_EQ(Plan().decodes, (Slots{0})) << "the second needs a block, and nobody may be preempted";
  Commit(20);
  EXPECT_TRUE(Plan().empty()) << "the first could go on, but then the second would wait again";
  Commit(21);
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.decodes, (Slots{0, 1}));
  EXPECT_EQ(plan.released, (Slots{2}));
}

TEST_F(EngineAheadTest, Beams_AwaitTheirDraws_WhileOtherRequestsArePlannedAhead) {
  Make(30);
  auto request = New(1, 3, 4, 2);
  request->beams = std::make_unique<BeamSearch>(BeamOptions{2, 2}, Tokens{}, 4);
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Submit(2, 3, 8);
  Plan();
  Commit(20);  // the common prompt of the beams, without its last token
  EXPECT_EQ(Plan().decodes.size(), 3u);
  EXPECT_EQ(Plan().decodes.size(), 1u) << "how the beams go on is not known";
  Commit(21);
  StepPlan plan = Plan();
  EXPECT_EQ(plan.decodes.size(), 3u);
  EXPECT_FALSE(plan.branches.empty());
  while (!engine_->idle()) {
    Commit(22);
    Plan();
  }
  EXPECT_EQ(sinks_[1].choices.size(), 2u);
  for (const auto& [index, beam] : sinks_[1].choices)
    EXPECT_EQ(beam.announced + 1, static_cast<int>(beam.tokens.size()))
        << "they come at once, all but the last with word of it";
  EXPECT_EQ(Got(2).size(), 8u);
  EXPECT_EQ(sinks_[2].choices[0].announced, 0);
}

TEST_F(EngineAheadTest, Choices_Fork_WhenTheirPromptIsComputed) {
  Make(30);
  Submit(1, 7, 3, 3);
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 0, 6}}));
  EXPECT_TRUE(Plan().empty());
  Commit(0);
  StepPlan plan = Plan();
  EXPECT_EQ(plan.decodes, (Slots{0, 1, 2}));
  EXPECT_EQ(plan.copies.size(), 2u);
  plan = Plan();
  EXPECT_EQ(plan.decodes, (Slots{0, 1, 2}));
  EXPECT_TRUE(plan.copies.empty()) << "everybody writes into a block of its own already";
  Commit(20);
  Plan();
  Commit(21);
  Commit(22);
  for (int choice = 0; choice < 3; ++choice) EXPECT_EQ(Got(1, choice), (Tokens{20, 21, 22}));
}

TEST_F(EngineAheadTest, NewRequest_Waits_WhileAnOutstandingStepComputesItsPrefix) {
  Make(40);
  for (RequestId id = 1; id <= 2; ++id) {
    ASSERT_FALSE(engine_->Submit(MakeRequest(id, Tokens(20, 7), 2, sinks_[id])));
    EXPECT_EQ(Plan().added.size(), id == 1 ? 1u : 0u);
  }
  Commit(20);
  const StepPlan plan = Plan();
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].num_computed, 16);
  EXPECT_EQ(engine_->stats().computed_tokens, 20 + 4 + 1);
}

TEST_F(EngineAheadTest, StartEpoch_DropsOutstandingSteps_ButKeepsCommittedTokens) {
  Make(20);
  Submit(1, 6, 10, 2);
  Submit(2, 3, 10);
  Plan();
  Commit(20);
  Plan();
  Plan();
  Commit(21);
  Plan();
  EXPECT_EQ(engine_->num_outstanding(), 2);
  engine_->StartEpoch(2);
  engine_->scheduler().CheckIntegrity();
  EXPECT_EQ(engine_->num_outstanding(), 0);
  EXPECT_EQ(engine_->blocks().num_free(), 20);
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.step, 1u);
  ASSERT_EQ(plan.added.size(), 2u);
  EXPECT_EQ(plan.added[1].tokens, (Tokens{2, 2, 2, 20, 21}));
  EXPECT_EQ(plan.added[1].num_computed, 0);
  while (!engine_->idle()) {
    Commit(30);
    Plan();
  }
  EXPECT_EQ(Got(1), (Tokens{21, 30, 30, 30, 30, 30, 30, 30, 30, 30}));
  EXPECT_EQ(Got(2), (Tokens{20, 21, 30, 30, 30, 30, 30, 30, 30, 30}));
}

TEST_F(EngineAheadTest, Engine_KeepsOneStepOutstanding_WhenPlanAheadIsOff) {
  options_.plan_ahead = false;
  Make(10);
  Submit(1, 6, 3);
  EXPECT_FALSE(Plan().empty());
  EXPECT_TRUE(Plan().empty());
  Commit(20);
  EXPECT_FALSE(Plan().empty());
  EXPECT_TRUE(Plan().empty());
}

}  // namespace
}  // namespace quire
