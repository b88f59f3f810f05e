// Tests of requests that move from one engine to another, with their blocks or without.
#include <gtest/gtest.h>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;
using Tokens = std::vector<TokenId>;

constexpr uint64_t kTicket = 7;

class LeavingSink : public CollectingSink {
 public:
  bool Abandoned() const override { return abandoned; }
  bool abandoned = false;
};

/// Two engines with blocks of 4 tokens. Their "model" samples 100, 101, ... by position, which reveals tokens that are
/// lost, repeated or sampled for a wrong position.
class EngineMigrationTest : public testing::Test {
 protected:
  EngineMigrationTest() {
    EngineOptions options;
    options.scheduler.max_step_tokens = 64;
    options.scheduler.max_running = 8;
    options.scheduler.lookahead_tokens = 0;
    options.blocks.num_blocks = 31;
    options.blocks.num_host_blocks = 20;
    options.blocks.block_size = 4;
    options.blocks.watermark = 0;
    options.max_model_len = 100;
    options.blocks.hash_key = {1};
    source_ = std::make_unique<Engine>(options);
    options.blocks.hash_key = {2};
    destination_ = std::make_unique<Engine>(options);
  }
  ~EngineMigrationTest() override {
    for (Engine* engine : {source_.get(), destination_.get()}) {
      engine->scheduler().CheckIntegrity();
      if (!engine->idle()) continue;
      EXPECT_EQ(engine->blocks().num_free(), engine->blocks().num_usable());
      EXPECT_EQ(engine->blocks().host_pool().num_held(), 0);
    }
  }

  void Submit(RequestId id, int prompt, int max_tokens, int n = 1) {
    auto request =
        MakeRequest(id, Tokens(static_cast<size_t>(prompt), static_cast<TokenId>(id)), max_tokens, sinks_[id], n);
    ASSERT_FALSE(source_->Submit(std::move(request)));
  }
  static StepPlan Plan(Engine& engine) {
    const StepPlan* plan = engine.NextPlan(0);
    engine.scheduler().CheckIntegrity();
    return plan != nullptr ? *plan : StepPlan{};
  }
  static void Commit(Engine& engine) {
    std::vector<SampledToken> drawn;
    for (const StepMember& m : engine.scheduler().outstanding().at(0).members) {
      const TokenId token = 100 + m.start + m.count;
      if (m.draws) drawn.push_back({m.slot, token, 0, {{token, -1.0f}, {token + 1, -2.0f}}});
    }
    ASSERT_TRUE(engine.Fits(drawn));
    engine.CommitStep(drawn);
    engine.scheduler().CheckIntegrity();
  }
  static void Step(Engine& engine, int count = 1) {
    for (int i = 0; i < count; ++i) {
      Plan(engine);
      Commit(engine);
    }
  }
  static void Finish(Engine& engine) {
    while (!engine.idle() || engine.num_outstanding() > 0) {
      if (engine.num_outstanding() == 0 && Plan(engine).empty()) FAIL() << "no plan";
      Commit(engine);
    }
  }
  void ExpectWhole(RequestId id, int prompt, int max_tokens, int choice = 0) {
    Tokens right;
    for (int i = 0; i < max_tokens; ++i) right.push_back(100 + prompt + i);
    EXPECT_EQ(sinks_[id].choices[choice].tokens, right);
    EXPECT_EQ(sinks_[id].choices[choice].finished, FinishReason::kLength);
  }

  std::unique_ptr<Engine> source_, destination_;
  std::map<RequestId, LeavingSink> sinks_;
};

TEST_F(EngineMigrationTest, Request_MovesWithItsBlocks_ThroughHostMemory) {
  Submit(1, 9, 8);
  Submit(2, 5, 8);
  Step(*source_, 3);
  ASSERT_TRUE(destination_->Reserve(kTicket, 6, MigrationWay::kHost));
  EXPECT_EQ(destination_->blocks().host_pool().num_held(), 6);
  auto departure = source_->Depart(1, kTicket, 6);
  source_->scheduler().CheckIntegrity();
  ASSERT_TRUE(departure);
  EXPECT_EQ(departure->moves.size(), 3u) << "11 computed tokens";
  EXPECT_EQ(departure->blocks.size(), 3u);
  EXPECT_EQ(source_->blocks().host_pool().num_held(), 3);
  EXPECT_EQ(source_->requests().size(), 1u);
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  destination_->scheduler().CheckIntegrity();
  EXPECT_EQ(destination_->blocks().host_pool().num_held(), 3) << "what it did not need is given back";
  source_->ReleaseTicket(kTicket);
  EXPECT_EQ(source_->blocks().host_pool().num_held(), 0);
  const StepPlan plan = Plan(*destination_);
  EXPECT_EQ(plan.swap_ins.size(), 3u);
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].num_computed, 11);
  EXPECT_EQ(plan.decodes.size(), 1u) << "nothing is computed again";
  Commit(*destination_);
  Finish(*destination_);
  Finish(*source_);
  ExpectWhole(1, 9, 8);
  ExpectWhole(2, 5, 8);
}

TEST_F(EngineMigrationTest, FullBlocks_MoveAheadOfTheirRequestAndAreCached_FromDeviceToDevice) {
  Submit(1, 9, 8);
  Submit(2, 5, 8);
  Step(*source_, 3);
  ASSERT_TRUE(destination_->Reserve(kTicket, 6, MigrationWay::kDevice));
  EXPECT_EQ(destination_->blocks().pool().num_held(), 6);
  const std::vector<BlockId> room = destination_->blocks().device_holdings().Find(kTicket)->blocks;
  const std::vector<BlockId> shared = source_->Share(1, kTicket, 6);
  source_->scheduler().CheckIntegrity();
  EXPECT_EQ(shared.size(), 2u) << "11 computed tokens fill two blocks of 4";
  for (const BlockId block : shared) EXPECT_EQ(source_->blocks().pool().ref_count(block), 2) << "the request's, too";
  Step(*source_, 2);  // the request runs meanwhile
  auto departure = source_->Depart(1, 0, 0, 2);
  source_->scheduler().CheckIntegrity();
  ASSERT_TRUE(departure);
  EXPECT_TRUE(departure->moves.empty() && departure->blocks.empty());
  for (const BlockId block : shared) EXPECT_EQ(source_->blocks().pool().ref_count(block), 1) << "read";
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, shared));
  destination_->scheduler().CheckIntegrity();
  EXPECT_EQ(destination_->blocks().pool().num_held(), 0) << "what it did not need is given back";
  EXPECT_EQ(destination_->blocks().pool().num_cached(), 2);
  source_->ReleaseTicket(kTicket);
  EXPECT_EQ(source_->blocks().pool().num_cached(), 3) << "whoever has the same prompt finds them there, too";
  const StepPlan plan = Plan(*destination_);
  EXPECT_TRUE(plan.swap_ins.empty());
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ((std::vector<BlockId>{plan.added[0].blocks.begin(), plan.added[0].blocks.begin() + 2}),
            (std::vector<BlockId>{room[0], room[1]}));
  EXPECT_EQ(plan.chunks, (std::vector<Chunk>{{0, 8, 6}})) << "the tokens after the full blocks, and no others";
  Commit(*destination_);
  Finish(*destination_);
  Finish(*source_);
  ExpectWhole(1, 9, 8);
  ExpectWhole(2, 5, 8);
}

TEST_F(EngineMigrationTest, SharedAndReservedBlocks_AreNotAllocated_UntilTheirTicketIsReleased) {
  Submit(1, 17, 8);
  Step(*source_, 1);
  ASSERT_TRUE(source_->Reserve(kTicket + 1, 24, MigrationWay::kDevice)) << "of 30, 5 are in use";
  EXPECT_FALSE(source_->Reserve(kTicket + 2, 2, MigrationWay::kDevice));
  EXPECT_EQ(source_->Share(1, kTicket, 9).size(), 4u);
  source_->Cancel(1);
  Submit(2, 17, 1);
  EXPECT_TRUE(Plan(*source_).empty()) << "2 blocks are left, and it needs 5";
  EXPECT_EQ(source_->requests().size(), 1u);
  source_->ReleaseTicket(kTicket);
  Finish(*source_);
  ExpectWhole(2, 17, 1);
  source_->ReleaseTicket(kTicket + 1);
}

TEST_F(EngineMigrationTest, SwapIn_Waits_WhileReservedBlocksFillTheDevicePool) {
  Submit(1, 9, 8);
  Step(*source_, 3);
  ASSERT_TRUE(destination_->Reserve(kTicket, 3, MigrationWay::kHost));
  ASSERT_TRUE(destination_->Reserve(kTicket + 1, 28, MigrationWay::kDevice)) << "of 30";
  auto departure = source_->Depart(1, kTicket, 3);
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  EXPECT_TRUE(Plan(*destination_).empty());
  destination_->ReleaseTicket(kTicket + 1);
  EXPECT_EQ(Plan(*destination_).swap_ins.size(), 3u);
  Commit(*destination_);
  Finish(*destination_);
  ExpectWhole(1, 9, 8);
  source_->ReleaseTicket(kTicket);
}

TEST_F(EngineMigrationTest, DeviceReserve_IsRefused_WithoutAPrefixCache) {
  LiveOptions options;
  options.prefix_caching = false;
  destination_->ChangeOptions(options);
  EXPECT_FALSE(destination_->Reserve(kTicket, 2, MigrationWay::kDevice));
  EXPECT_TRUE(destination_->Reserve(kTicket, 2, MigrationWay::kHost));
  destination_->ReleaseTicket(kTicket);
}

TEST_F(EngineMigrationTest, Share_ReturnsOnlyFullBlocks_OfRequestsWithOneSequence) {
  Submit(1, 3, 8);
  Submit(2, 9, 6, 2);
  Step(*source_, 3);
  EXPECT_TRUE(source_->Share(1, kTicket, 0).empty()) << "no room";
  EXPECT_TRUE(source_->Share(2, kTicket, 9).empty()) << "two choices";
  EXPECT_TRUE(source_->Share(3, kTicket, 9).empty()) << "not there";
  EXPECT_EQ(source_->Share(1, kTicket, 9).size(), 1u);
  source_->ReleaseTicket(kTicket);
  Finish(*source_);
  ExpectWhole(1, 3, 8);
}

TEST_F(EngineMigrationTest, Request_IsRecomputed_WhenTheMoveHasNoTicket) {
  Submit(1, 9, 8);
  Step(*source_, 3);
  auto departure = source_->Depart(1, 0, 0);
  EXPECT_TRUE(departure->moves.empty() && departure->blocks.empty());
  EXPECT_EQ(source_->blocks().num_free(), source_->blocks().num_usable());
  ASSERT_FALSE(destination_->Adopt(departure->request, 0, {}));
  EXPECT_EQ(Plan(*destination_).chunks, (std::vector<Chunk>{{0, 0, 12}}));
  Commit(*destination_);
  Finish(*destination_);
  ExpectWhole(1, 9, 8);
}

TEST_F(EngineMigrationTest, TokensOfOutstandingSteps_AreDrawnAgain_WhenARequestDeparts) {
  Submit(1, 7, 8);
  Submit(2, 7, 8);
  Step(*source_, 1);
  Plan(*source_);
  Plan(*source_);
  ASSERT_EQ(source_->num_outstanding(), 2);
  ASSERT_TRUE(destination_->Reserve(kTicket, 9, MigrationWay::kHost));
  auto departure = source_->Depart(1, kTicket, 9);
  source_->scheduler().CheckIntegrity();
  EXPECT_EQ(departure->moves.size(), 2u) << "the block that the outstanding steps begin holds nothing that counts";
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  source_->ReleaseTicket(kTicket);
  Commit(*source_);
  Commit(*source_);
  EXPECT_EQ(sinks_[1].choices[0].tokens.size(), 1u);
  Finish(*source_);
  Finish(*destination_);
  ExpectWhole(1, 7, 8);
  ExpectWhole(2, 7, 8);
}

TEST_F(EngineMigrationTest, Choices_KeepSharingTheirPromptBlocks_WhenTheirRequestMoves) {
  Submit(1, 9, 6, 3);
  Step(*source_, 3);
  const int blocks = source_->scheduler().BlocksOf(*source_->requests().at(1));
  EXPECT_EQ(blocks, 2 + 3);
  ASSERT_TRUE(destination_->Reserve(kTicket, blocks, MigrationWay::kHost));
  auto departure = source_->Depart(1, kTicket, blocks);
  EXPECT_EQ(departure->blocks.size(), 5u);
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  destination_->scheduler().CheckIntegrity();
  source_->ReleaseTicket(kTicket);
  EXPECT_EQ(Plan(*destination_).swap_ins.size(), 5u);
  Commit(*destination_);
  Finish(*destination_);
  for (int choice = 0; choice < 3; ++choice) ExpectWhole(1, 9, 6, choice);
}

TEST_F(EngineMigrationTest, WaitingRequest_MovesWithoutBlocks_AndQueuesAsNew) {
  Submit(1, 9, 4);
  auto departure = source_->Depart(1, kTicket, 9);
  EXPECT_TRUE(departure->blocks.empty());
  ASSERT_FALSE(destination_->Adopt(departure->request, 0, {}));
  EXPECT_EQ(destination_->scheduler().queue().clients().at("").preempted.size(), 0u) << "a newcomer like others";
  Finish(*destination_);
  ExpectWhole(1, 9, 4);
}

TEST_F(EngineMigrationTest, AdmittedRequest_IsChargedOnce_WhenItMovesBeforeItsFirstStep) {
  Submit(1, 17, 1);
  ASSERT_FALSE(Plan(*source_).empty());
  ASSERT_FALSE(source_->Submit(MakeRequest(2, Tokens(17, 1), 2, sinks_[2])));
  ASSERT_TRUE(Plan(*source_).empty()) << "it is admitted, and waits for the prefix that request 1 computes";
  ASSERT_EQ(source_->scheduler().num_running(), 2);
  auto departure = source_->Depart(2, 0, 0);
  ASSERT_FALSE(source_->Adopt(departure->request, 0, {}));
  EXPECT_EQ(source_->scheduler().queue().clients().at("").preempted.size(), 1u) << "it had a place and goes before";
  source_->scheduler().CheckIntegrity();
  Finish(*source_);
  ExpectWhole(2, 17, 2);
  EXPECT_EQ(source_->scheduler().queue().clients().at("").served, 17 + 2 * 1 + 17 + 2 * 2);
}

TEST_F(EngineMigrationTest, MovedBlocks_AreLost_WhenTheDestinationStartsANewEpoch) {
  Tokens prompt(8, 1);
  ASSERT_FALSE(source_->Submit(MakeRequest(1, prompt, 1, sinks_[1])));
  Finish(*source_);  // two blocks are now cached
  prompt.resize(17, 2);
  ASSERT_FALSE(source_->Submit(MakeRequest(2, prompt, 1, sinks_[2])));
  ASSERT_FALSE(Plan(*source_).empty());
  ASSERT_FALSE(source_->Submit(MakeRequest(3, prompt, 2, sinks_[3])));
  ASSERT_TRUE(Plan(*source_).empty()) << "it has the two blocks, and waits for the next";
  ASSERT_TRUE(destination_->Reserve(kTicket, 2, MigrationWay::kHost));
  auto departure = source_->Depart(3, kTicket, 2);
  ASSERT_EQ(departure->blocks.size(), 2u);
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  destination_->StartEpoch(2);
  destination_->scheduler().CheckIntegrity();
  EXPECT_EQ(destination_->blocks().host_pool().num_held(), 0);
  EXPECT_EQ(Plan(*destination_).chunks, (std::vector<Chunk>{{0, 0, 17}}));
  Commit(*destination_);
  Finish(*destination_);
  Finish(*source_);
  source_->ReleaseTicket(kTicket);
  EXPECT_EQ(sinks_[3].choices[0].tokens.size(), 2u);
}

TEST_F(EngineMigrationTest, Request_LeavesItsBlocksBehind_WhenTooFewAreReserved) {
  Submit(1, 20, 4);
  Step(*source_, 2);
  auto departure = source_->Depart(1, kTicket, 3);
  EXPECT_TRUE(departure->blocks.empty());
  EXPECT_EQ(source_->blocks().host_pool().num_held(), 0);
  EXPECT_FALSE(destination_->Reserve(kTicket, 21, MigrationWay::kHost)) << "there are 20";
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, {}));
  Finish(*destination_);
  ExpectWhole(1, 20, 4);
}

TEST_F(EngineMigrationTest, Ticket_Ends_WhenEitherSideStartsANewEpoch) {
  Submit(1, 9, 8);
  Step(*source_, 2);
  ASSERT_TRUE(destination_->Reserve(kTicket, 6, MigrationWay::kHost));
  auto departure = source_->Depart(1, kTicket, 6);
  ASSERT_EQ(departure->blocks.size(), 3u);
  source_->StartEpoch(2);
  EXPECT_EQ(source_->blocks().host_pool().num_held(), 0);
  source_->ReleaseTicket(kTicket);
  destination_->StartEpoch(2);
  EXPECT_EQ(destination_->blocks().host_pool().num_held(), 0);
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  destination_->scheduler().CheckIntegrity();
  EXPECT_EQ(Plan(*destination_).chunks, (std::vector<Chunk>{{0, 0, 11}})) << "what was copied is gone";
  Commit(*destination_);
  Finish(*destination_);
  ExpectWhole(1, 9, 8);
}

TEST_F(EngineMigrationTest, AbandonedRequest_IsDropped_WhileItMoves) {
  Submit(1, 9, 8);
  Step(*source_, 2);
  ASSERT_TRUE(destination_->Reserve(kTicket, 6, MigrationWay::kHost));
  auto departure = source_->Depart(1, kTicket, 6);
  source_->Cancel(1);
  destination_->Cancel(1);
  sinks_[1].abandoned = true;
  ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
  EXPECT_TRUE(destination_->idle());
  EXPECT_EQ(destination_->blocks().host_pool().num_held(), 0);
  source_->ReleaseTicket(kTicket);
  EXPECT_EQ(sinks_[1].choices[0].tokens.size(), 2u);
}

TEST_F(EngineMigrationTest, TimeLimitsOfARequest_Hold_AfterItHasMoved) {
  for (const RequestId id : {1, 2}) {
    auto request = MakeRequest(id, Tokens(9, static_cast<TokenId>(id)), 50, sinks_[id]);
    if (id == 1) request->limits.max_seconds = 5;
    ASSERT_FALSE(source_->Submit(std::move(request)));
  }
  Step(*source_, 2);
  for (const RequestId id : {1, 2}) {
    auto departure = source_->Depart(id, 0, 0);
    ASSERT_FALSE(destination_->Adopt(departure->request, 0, {}));
  }
  destination_->ExpireOverdue(4.9);
  EXPECT_EQ(destination_->requests().size(), 2u);
  destination_->ExpireOverdue(5.1);
  EXPECT_EQ(destination_->requests().size(), 1u);
  EXPECT_EQ(sinks_[1].error, "not done within 5 s");
  destination_->ExpireOverdue(601);
  EXPECT_EQ(sinks_[2].error, "not done within 600 s");
}

TEST_F(EngineMigrationTest, Adopt_RefusesARequestThatNeverFits_AndLeavesItWithTheCaller) {
  Submit(1, 60, 30);
  Step(*source_, 2);
  EngineOptions small = destination_->options();
  small.blocks.num_blocks = 11;
  destination_ = std::make_unique<Engine>(small);
  auto departure = source_->Depart(1, 0, 0);
  EXPECT_TRUE(destination_->Adopt(departure->request, 0, {}));
  ASSERT_NE(departure->request, nullptr);
  ASSERT_FALSE(source_->Adopt(departure->request, 0, {})) << "back to where it came from";
  Finish(*source_);
  ExpectWhole(1, 60, 30);
}

TEST_F(EngineMigrationTest, Beams_DrawTheSameTokens_WhenTheirRequestMoves) {
  const auto run = [&](RequestId id, bool moves) {
    auto request = MakeRequest(id, Tokens(6, 3), 6, sinks_[id], 2);
    request->beams = std::make_unique<BeamSearch>(BeamOptions{2, 2}, Tokens{}, 6);
    ASSERT_FALSE(source_->Submit(std::move(request)));
    Step(*source_, 3);
    if (!moves) return Finish(*source_);
    Plan(*source_);
    ASSERT_TRUE(destination_->Reserve(kTicket, 9, MigrationWay::kHost));
    auto departure = source_->Depart(id, kTicket, 9);
    Commit(*source_);
    ASSERT_FALSE(destination_->Adopt(departure->request, kTicket, departure->blocks));
    source_->ReleaseTicket(kTicket);
    Finish(*destination_);
  };
  run(1, false);
  run(2, true);
  ASSERT_EQ(sinks_[2].choices.size(), 2u);
  for (int beam = 0; beam < 2; ++beam) EXPECT_EQ(sinks_[2].choices[beam].tokens, sinks_[1].choices[beam].tokens);
}

/// One of two beams has its blocks; the other beam waits for a prefix that an outstanding step computes. Neither can
/// run yet, so no plan is sent. A swap-in recorded in the plan would never reach the workers and would leave the blocks
/// empty.
TEST_F(EngineMigrationTest, SwapIn_WaitsForANonEmptyPlan_WhileABeamAwaitsItsPrefix) {
  const Tokens prefix = {1, 102, 103, 103, 9};  // the tokens of the second beam's first block
  const auto commit = [](Engine& engine) {
    std::vector<SampledToken> drawn;
    for (const StepMember& m : engine.scheduler().outstanding().at(0).members) {
      if (!m.draws) continue;
      const bool first = m.start == 0 && m.count == 1;
      if (first) drawn.push_back({m.slot, 101, 0, {{101, -1.0f}, {102, -1.1f}}});
      if (!first) drawn.push_back({m.slot, 103, 0, {{103, -1.0f}, {7, -50.0f}}});
    }
    ASSERT_TRUE(engine.Fits(drawn));
    engine.CommitStep(drawn);
  };
  auto beams = MakeRequest(1, Tokens{1}, 10, sinks_[1], 2);
  beams->beams = std::make_unique<BeamSearch>(BeamOptions{2, 2}, Tokens{}, 10);
  ASSERT_FALSE(source_->Submit(std::move(beams)));
  for (int step = 0; step < 4; ++step) {
    Plan(*source_);
    commit(*source_);
  }
  auto departure = source_->Depart(1, 0, 0);
  source_->FlushCache();

  ASSERT_FALSE(destination_->Submit(MakeRequest(2, prefix, 1, sinks_[2])));
  Plan(*destination_);
  ASSERT_FALSE(destination_->Adopt(departure->request, 0, {}));
  EXPECT_EQ(Plan(*destination_).chunks, (std::vector<Chunk>{{1, 0, 4}})) << "the first beam's block";
  Commit(*destination_);
  commit(*destination_);
  ASSERT_TRUE(source_->Reserve(kTicket, 1, MigrationWay::kHost));
  departure = destination_->Depart(1, kTicket, 1);
  ASSERT_EQ(departure->blocks.size(), 1u);

  ASSERT_FALSE(source_->Submit(MakeRequest(3, prefix, 1, sinks_[3])));
  Plan(*source_);
  ASSERT_FALSE(source_->Adopt(departure->request, kTicket, departure->blocks));
  destination_->ReleaseTicket(kTicket);
  EXPECT_TRUE(Plan(*source_).empty());
  Commit(*source_);
  const StepPlan plan = Plan(*source_);
  EXPECT_EQ(plan.swap_ins.size(), 1u);
  ASSERT_EQ(plan.added.size(), 2u);
  EXPECT_EQ(plan.added[0].num_computed + plan.added[1].num_computed, 4 + 4) << "and the second beam's is cached";
  commit(*source_);
  Finish(*source_);
  EXPECT_EQ(sinks_[1].choices[0].tokens.size(), 10u);
}

}  // namespace
}  // namespace quire
