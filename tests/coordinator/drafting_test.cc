// Drafts in the core: where guesses come from, when sequences get them, and what verification makes of them.
#include <gtest/gtest.h>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;
using Tokens = std::vector<TokenId>;

Tokens GuessAfter(const Tokens& tokens, int most, DraftOptions options = {.num_tokens = 8}) {
  Request request;
  request.sequences = NewSequences(tokens, 1);
  Tokens guess = {99};
  RepeatProposer(options).Propose(request, request.sequences.front(), most, guess);
  return guess;
}

TEST(RepeatProposerTest, Guess_IsWhatFollowedTheLongestCommonPart) {
  EXPECT_EQ(GuessAfter({1, 2, 3, 4, 5, 9, 2, 3, 7, 1, 2, 3}, 2), (Tokens{4, 5})) << "three common tokens beat two";
  EXPECT_EQ(GuessAfter({2, 3, 4, 8, 2, 3, 5, 8, 2, 3}, 1), (Tokens{5})) << "the later of two equal places";
}

TEST(RepeatProposerTest, Guess_EndsWithTheText) {
  EXPECT_EQ(GuessAfter({1, 2, 7, 1, 2}, 8), (Tokens{7, 1, 2}));
  EXPECT_EQ(GuessAfter({5, 5, 5, 5}, 8), (Tokens{5})) << "the last place but one";
}

TEST(RepeatProposerTest, Guess_IsEmpty_WithoutACommonPartOfTheLeastLength) {
  EXPECT_TRUE(GuessAfter({1, 2, 3, 4}, 4).empty());
  EXPECT_TRUE(GuessAfter({1, 2, 3, 1}, 4).empty()) << "one common token";
  EXPECT_EQ(GuessAfter({1, 2, 3, 1}, 4, {.num_tokens = 4, .min_match = 1}), (Tokens{2, 3, 1}));
  EXPECT_TRUE(GuessAfter({1}, 4).empty());
}

TEST(DraftPaceTest, Length_FollowsTheShareOfRightDraftsAndTheCostOfRows) {
  DraftPace pace;
  EXPECT_EQ(pace.Length(0, 0.1), 0);
  EXPECT_EQ(pace.Length(3, 0.01), 3) << "rows cost next to nothing";
  const int first = pace.Length(64, 0.1);
  EXPECT_GT(first, 1);
  for (int i = 0; i < 10; ++i) pace.Verified(8, 8);
  EXPECT_GT(pace.Length(64, 0.1), 2 * first);
  EXPECT_LT(pace.Length(64, 0.5), pace.Length(64, 0.1));
  for (int i = 0; i < 30; ++i) pace.Verified(1, 8);
  EXPECT_EQ(pace.Length(64, 0.4), 1);
}

TEST(DraftPaceTest, Sequence_RestsLonger_TheMoreAttemptsFail) {
  DraftPace pace;
  for (const int rest : {2, 4, 8, 16, 32, 32}) {
    rest % 4 == 0 ? pace.Verified(0, 3) : pace.FoundNothing();
    EXPECT_EQ(pace.Length(8, 0.1), 0);
    pace.Gained(rest - 1);
    EXPECT_FALSE(pace.IsReady()) << rest;
    pace.Gained(1);
    EXPECT_TRUE(pace.IsReady()) << rest;
  }
  pace.Verified(1, 3);
  pace.FoundNothing();
  pace.Gained(2);
  EXPECT_TRUE(pace.IsReady()) << "a right draft ends the series";
}

TEST(DraftCostTest, Row_IsLearned_FromStepsWithAndWithoutDrafts) {
  DraftCost cost;
  const double before = cost.row();
  cost.Observe(1, 4, 0.5);
  EXPECT_EQ(cost.row(), before) << "no step without drafts was seen";
  for (int i = 0; i < 100; ++i) {
    cost.Observe(1, 0, 0.010);
    cost.Observe(1, 5, 0.015);
    cost.Observe(2, 0, 0.020);
    cost.Observe(2, 10, 0.030);
  }
  EXPECT_NEAR(cost.row(), 0.1, 1e-3);
  cost.Observe(1000, 4, 1);
  cost.Observe(1, 1, 1e9);
  EXPECT_LE(cost.row(), 0.2) << "one outlier counts little";
}

/// Draws of slot 0.
std::vector<SampledToken> Drawn(const Tokens& tokens) {
  std::vector<SampledToken> drawn;
  for (const TokenId token : tokens) drawn.push_back({0, token, 0, {}});
  return drawn;
}

/// Proposes what the test says.
class Said final : public DraftProposer {
 public:
  void Propose(const Request&, const Sequence&, int most, Tokens& guess) override {
    guess.assign(next.begin(), next.begin() + std::min<std::ptrdiff_t>(most, std::ssize(next)));
  }
  Tokens next;
};

/// An engine with a few blocks of 4 tokens.
class DraftingTest : public testing::Test {
 protected:
  void Make(int usable_blocks, int max_step_tokens = 64) {
    options_.scheduler.max_step_tokens = max_step_tokens;
    options_.scheduler.max_running = 8;
    options_.scheduler.lookahead_tokens = 0;
    options_.blocks.num_blocks = usable_blocks + 1;
    options_.blocks.block_size = 4;
    options_.blocks.watermark = 0;
    options_.max_model_len = 1000;
    options_.drafts = {.num_tokens = 4, .max_batch = 2};
    engine_ = std::make_unique<Engine>(options_);
    engine_->set_proposer(&said_);
  }
  std::unique_ptr<Request> New(RequestId id, int prompt, int max_tokens, int n = 1) {
    return MakeRequest(id, Tokens(static_cast<size_t>(prompt), static_cast<TokenId>(id)), max_tokens, sinks_[id], n);
  }
  StepPlan Plan() {
    const StepPlan* plan = engine_->NextPlan(0);
    engine_->scheduler().CheckIntegrity();
    return plan != nullptr ? *plan : StepPlan{};
  }
  void Commit(const std::vector<std::pair<SlotId, TokenId>>& drawn) {
    std::vector<SampledToken> tokens;
    for (const auto& [slot, token] : drawn) tokens.push_back({slot, token, 0, {}});
    ASSERT_TRUE(engine_->Fits(tokens));
    engine_->CommitStep(tokens);
    engine_->scheduler().CheckIntegrity();
  }
  /// Submits a request of three prompt tokens and commits its first step, which draws token 7.
  void Begin(int max_tokens) {
    ASSERT_FALSE(engine_->Submit(New(1, 3, max_tokens)));
    EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 0, 3}}));
    EXPECT_TRUE(Plan().empty()) << "the sequence may get drafts, once its token is known";
    Commit({{0, 7}});
  }
  const Tokens& Got(RequestId id) { return sinks_[id].choices[0].tokens; }

  EngineOptions options_;
  Said said_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
};

TEST_F(DraftingTest, Sequence_GainsRightDraftsAndTheTokenAfterThem) {
  Make(20);
  Begin(20);
  said_.next = {10, 11, 12, 13};
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.drafts, (std::vector<Draft>{{0, {10, 11, 12}}})) << "as many as may pay, before anything is measured";
  EXPECT_TRUE(plan.decodes.empty());
  EXPECT_EQ(plan.position_sum, 3u);
  EXPECT_EQ(plan.tables.size(), 1u) << "positions 4 to 6 need a second block";
  EXPECT_TRUE(Plan().empty()) << "what the sequence gains is not known yet";
  Commit({{0, 10}, {0, 11}, {0, 20}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11, 20}));
  EXPECT_EQ(engine_->stats().drafts, 1);
  EXPECT_EQ(engine_->stats().draft_tokens, 3);
  EXPECT_EQ(engine_->stats().accepted_tokens, 2);
  EXPECT_EQ(engine_->stats().generated_tokens, 4);
}

TEST_F(DraftingTest, WrongDrafts_GiveTheirBlocksBack) {
  Make(20);
  Begin(20);
  said_.next = {10, 11, 12, 13};
  const int before = engine_->blocks().num_free();
  Plan();
  EXPECT_EQ(engine_->blocks().num_free(), before - 1);
  Commit({{0, 5}});
  EXPECT_EQ(Got(1), (Tokens{7, 5}));
  EXPECT_EQ(engine_->blocks().num_free(), before - 1) << "the block of the next token stays";
  EXPECT_EQ(Plan().drafts.size(), 0u) << "it rests";
}

TEST_F(DraftingTest, Answer_EndsWithItsStopToken_AmongRightDrafts) {
  Make(20);
  auto request = New(1, 3, 20);
  request->limits.stop_token_ids = {11};
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Plan();
  Commit({{0, 7}});
  said_.next = {10, 11, 12};
  Plan();
  Commit({{0, 10}, {0, 11}, {0, 12}, {0, 13}});
  EXPECT_EQ(Got(1), (Tokens{7, 10}));
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kStop);
  EXPECT_EQ(engine_->stats().generated_tokens, 3) << "with the stop token, without what came after it";
  EXPECT_TRUE(engine_->idle());
  EXPECT_EQ(engine_->blocks().num_free(), engine_->blocks().num_usable());
}

TEST_F(DraftingTest, Drafts_NeverGoPastTheMostTokensOfAnAnswer) {
  Make(20);
  Begin(3);
  said_.next = {10, 11, 12, 13};
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {10}}})) << "two more tokens are wanted";
  Commit({{0, 10}, {0, 11}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11}));
  EXPECT_TRUE(engine_->idle());
}

TEST_F(DraftingTest, Drafts_TakeOnlyWhatTheStepsBudgetHasLeft) {
  Make(20, 8);
  Begin(20);
  said_.next = {10, 11, 12, 13};
  ASSERT_FALSE(engine_->Submit(New(2, 5, 2)));
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.chunks.size(), 1u);
  EXPECT_EQ(plan.drafts, (std::vector<Draft>{{0, {10, 11}}})) << "1 + 2 tokens beside a prompt of 5";
}

TEST_F(DraftingTest, Drafts_FillTheWholePool_WhereTheirRequestDoes) {
  Make(2);
  Begin(5);
  said_.next = {10, 11, 12, 13};
  const StepPlan plan = Plan();
  ASSERT_EQ(plan.drafts, (std::vector<Draft>{{0, {10, 11, 12}}}));
  Commit({{0, 10}, {0, 11}, {0, 12}, {0, 14}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11, 12, 14}));
}

TEST_F(DraftingTest, Sequences_GetNoDrafts_InLargerBatches) {
  Make(40);
  for (const RequestId id : {1, 2, 3}) ASSERT_FALSE(engine_->Submit(New(id, 3, 10)));
  said_.next = {10, 11};
  Plan();
  Commit({{0, 7}, {1, 7}, {2, 7}});
  EXPECT_EQ(Plan().decodes.size(), 3u);
  EXPECT_EQ(Plan().decodes.size(), 3u) << "such steps are planned ahead";
}

TEST_F(DraftingTest, Engine_RefusesAnAnswer_WhoseEarlierTokensAreNotTheDrafts) {
  Make(20);
  Begin(20);
  said_.next = {10, 11};
  Plan();
  EXPECT_FALSE(engine_->Fits(Drawn({12, 11})));
  EXPECT_FALSE(engine_->Fits(Drawn({10, 11, 12, 13}))) << "more tokens than rows";
  EXPECT_FALSE(engine_->Fits(Drawn({})));
  EXPECT_TRUE(engine_->Fits(Drawn({10, 11, 12})));
}

}  // namespace
}  // namespace quire
