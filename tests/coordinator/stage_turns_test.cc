// Tests how decodes take turns when the workers form a pipeline (StageTurns).
#include <gtest/gtest.h>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;
using Slots = std::vector<SlotId>;
using Tokens = std::vector<TokenId>;

/// An engine whose workers form a pipeline. The test chooses each token that the "model" samples.
class StageTurnsTest : public testing::Test {
 protected:
  void Make(int num_stages, int max_step_tokens = 64) {
    options_.scheduler.num_stages = num_stages;
    options_.scheduler.max_step_tokens = max_step_tokens;
    options_.scheduler.max_running = 8;
    options_.scheduler.lookahead_tokens = 0;
    options_.blocks.num_blocks = 201;
    options_.blocks.block_size = 4;
    options_.blocks.watermark = 0;
    options_.max_model_len = 1000;
    engine_ = std::make_unique<Engine>(options_);
  }

  void Submit(RequestId id, int max_tokens, int prompt = 3, const std::string& client = "") {
    auto request =
        MakeRequest(id, Tokens(static_cast<size_t>(prompt), static_cast<TokenId>(id)), max_tokens, sinks_[id]);
    request->client = client;
    ASSERT_FALSE(engine_->Submit(std::move(request)));
  }

  /// Returns the next plan, or an empty plan when there is none.
  StepPlan Plan() {
    const StepPlan* plan = engine_->NextPlan(0);
    engine_->scheduler().CheckIntegrity();
    return plan != nullptr ? *plan : StepPlan{};
  }

  /// Commits the result of the oldest outstanding plan: the same token for every sample.
  void Commit(TokenId token = 20) {
    std::vector<SampledToken> drawn;
    for (const StepMember& m : engine_->scheduler().outstanding().at(0).members) {
      if (m.draws) drawn.push_back({m.slot, token, 0, {}});
    }
    ASSERT_TRUE(engine_->Fits(drawn));
    engine_->CommitStep(drawn);
    engine_->scheduler().CheckIntegrity();
  }

  /// Submits requests 1 to `count`, and computes their prompts in one step.
  void Begin(int count, int max_tokens = 50) {
    for (RequestId id = 1; id <= static_cast<RequestId>(count); ++id) Submit(id, max_tokens);
    Plan();
    Commit();
  }

  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
};

TEST_F(StageTurnsTest, Plan_ServesDifferentSequencesInSuccessiveSteps_OnTwoStages) {
  Make(2);
  Begin(4);
  EXPECT_EQ(Plan().decodes, (Slots{0, 1}));
  EXPECT_EQ(Plan().decodes, (Slots{2, 3}));
  Commit();
  EXPECT_EQ(Plan().decodes, (Slots{0, 1}));
  Commit();
  EXPECT_EQ(Plan().decodes, (Slots{2, 3}));
}

TEST_F(StageTurnsTest, Plan_PutsNoSequenceIntoTwoSteps_WhileAnotherWaits) {
  Make(3);
  Begin(7);
  EXPECT_EQ(Plan().decodes, (Slots{0, 1, 2}));
  EXPECT_EQ(Plan().decodes, (Slots{3, 4, 5}));
  EXPECT_EQ(Plan().decodes, (Slots{6})) << "no sequence is in two steps while another one waits";
}

TEST_F(StageTurnsTest, Sequence_IsPlannedAheadOfItsDraw_OnlyWhenAllSequencesAreInOutstandingSteps) {
  Make(2);
  Begin(2);
  EXPECT_EQ(Plan().decodes, (Slots{0, 1})) << "the most senior one beside one whose turn it is";
  EXPECT_EQ(Plan().decodes, (Slots{0})) << "for the first stage, which must not wait for the coordinator";
  EXPECT_EQ(Plan().decodes, (Slots{1}));
  EXPECT_TRUE(Plan().empty()) << "one step more than stages is outstanding";
  EXPECT_EQ(engine_->num_outstanding(), 3);
}

TEST_F(StageTurnsTest, LoneSequence_IsAtMostOneStepAheadOfItsDraws) {
  Make(3);
  Begin(1);
  EXPECT_EQ(Plan().decodes, (Slots{0}));
  EXPECT_EQ(Plan().decodes, (Slots{0}));
  EXPECT_TRUE(Plan().empty()) << "a third draw would follow two that are not known";
  Commit();
  EXPECT_EQ(Plan().decodes, (Slots{0}));
}

TEST_F(StageTurnsTest, ChunksOfOnePrompt_AreInSuccessiveSteps) {
  Make(2, 8);
  Submit(1, 2, 22);
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 0, 8}}));
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 8, 8}}));
  EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 16, 6}}));
}

TEST_F(StageTurnsTest, SequencesOfTwoClients_TakeTurns_OnTwoStages) {
  Make(2);
  for (RequestId id = 1; id <= 4; ++id) Submit(id, 50, 3, id % 2 == 0 ? "a" : "b");
  Plan();
  Commit();
  EXPECT_EQ(Plan().decodes, (Slots{0, 1}));
  EXPECT_EQ(Plan().decodes, (Slots{2, 3}));
}

TEST_F(StageTurnsTest, MostSeniorSequence_JoinsTheNextDecodes_WhenNoStepIsOutstanding) {
  Make(2);
  Begin(4);
  EXPECT_EQ(Plan().decodes, (Slots{0, 1}));
  Commit();
  EXPECT_EQ(Plan().decodes, (Slots{0, 2}));
}

TEST_F(StageTurnsTest, AllSequences_AreInEachStep_WhileSomeSequencesMayGetDrafts) {
  options_.drafts = {.num_tokens = 4, .min_match = 2, .max_match = 4, .max_batch = 8, .from_text = true};
  Make(2);
  Begin(4);
  while (engine_->num_outstanding() == 0) ASSERT_FALSE(Plan().empty());
  EXPECT_EQ(engine_->scheduler().outstanding().at(0).members.size(), 4u);
  while (!Plan().empty()) {
  }
  EXPECT_LE(engine_->num_outstanding(), 2);
}

TEST_F(StageTurnsTest, AllSequences_AreInEachStep_WhenNoStepIsPlannedAhead) {
  options_.plan_ahead = false;
  Make(2);
  Begin(4);
  EXPECT_EQ(Plan().decodes, (Slots{0, 1, 2, 3}));
}

TEST_F(StageTurnsTest, AllSequences_AreInEachStep_WhenANewGroupHasNoPipeline) {
  Make(2);
  Begin(4);
  Plan();
  engine_->StartEpoch(2, engine_->blocks().sizes(), 1);
  while (engine_->num_outstanding() == 0) ASSERT_FALSE(Plan().empty());
  Commit();
  EXPECT_EQ(Plan().decodes, (Slots{0, 1, 2, 3}));
  EXPECT_EQ(Plan().decodes, (Slots{0, 1, 2, 3}));
  EXPECT_TRUE(Plan().empty());
}

TEST_F(StageTurnsTest, Answers_AreWhole_WhenSequencesEndInDifferentSteps) {
  Make(2);
  for (RequestId id = 1; id <= 5; ++id) Submit(id, 3 + static_cast<int>(id));
  while (!engine_->idle()) {
    while (!Plan().empty()) {
    }
    Commit();
  }
  for (RequestId id = 1; id <= 5; ++id) EXPECT_EQ(sinks_[id].choices[0].tokens, Tokens(3 + id, 20)) << id;
}

}  // namespace
}  // namespace quire
