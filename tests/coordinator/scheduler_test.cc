#include "coordinator/core/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/random.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;
using Blocks = std::vector<BlockId>;
using Slots = std::vector<SlotId>;

/// An engine with a few blocks of 4 tokens. The test chooses each token that the "model" samples.
class SchedulerTest : public testing::Test {
 protected:
  void Make(int usable_blocks, int max_step_tokens = 64, int max_running = 8) {
    EngineOptions options;
    options.scheduler.max_step_tokens = max_step_tokens;
    options.scheduler.max_running = max_running;
    options.scheduler.lookahead_tokens = 0;
    options.scheduler.preemption = PreemptionMode::kRecompute;
    options.blocks.num_blocks = usable_blocks + 1;
    options.blocks.block_size = 4;
    options.blocks.watermark = 0;
    options.blocks.prefix_caching = false;
    options.max_model_len = 1000;
    if (change_) change_(options);
    engine_ = std::make_unique<Engine>(options);
  }

  std::optional<std::string> Submit(RequestId id, int prompt, int max_tokens, int n = 1) {
    return engine_->Submit(
        MakeRequest(id, std::vector<TokenId>(static_cast<size_t>(prompt), 5), max_tokens, sinks_[id], n));
  }

  /// Runs one step: plans it, gives `token` to every member that samples, and commits.
  StepPlan Step(TokenId token = 9) {
    const StepPlan* next = engine_->NextPlan(0);
    EXPECT_NE(next, nullptr);
    const StepPlan plan = *next;
    engine_->scheduler().CheckIntegrity();
    engine_->CommitStep(Draws(plan, token));
    engine_->scheduler().CheckIntegrity();
    return plan;
  }

  /// Returns the sampled tokens of a step: for all decodes, and for chunks that reach the end of their sequence.
  std::vector<SampledToken> Draws(const StepPlan& plan, TokenId token) {
    std::vector<SampledToken> out;
    for (const SlotId slot : plan.decodes) out.push_back({slot, token, 0, {}});
    for (const Chunk& chunk : plan.chunks) {
      for (const Request* request : engine_->scheduler().running()) {
        for (const Sequence& s : request->sequences) {
          if (s.slot == chunk.slot && chunk.start + chunk.count == s.num_tokens())
            out.push_back({chunk.slot, token, 0, {}});
        }
      }
    }
    return out;
  }

  std::function<void(EngineOptions&)> change_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
};

TEST_F(SchedulerTest, Request_RunsItsPromptThenDecodesThenEnds) {
  Make(10);
  ASSERT_FALSE(Submit(1, 6, 3));
  StepPlan plan = Step();
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].blocks, (Blocks{1, 2}));
  EXPECT_EQ(plan.chunks, (std::vector<Chunk>{{0, 0, 6}}));
  plan = Step();
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_TRUE(plan.tables.empty());  // token 7 fits into block 2
  plan = Step();
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_EQ(sinks_[1].choices[0].tokens, (std::vector<TokenId>{9, 9, 9}));
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kLength);
  EXPECT_EQ(engine_->NextPlan(0), nullptr);
  EXPECT_EQ(engine_->blocks().num_free(), 10);
}

TEST_F(SchedulerTest, BlockTables_AreSentAsDeltas) {
  Make(10);
  ASSERT_FALSE(Submit(1, 4, 3));
  Step();
  const StepPlan plan = Step();
  ASSERT_EQ(plan.tables.size(), 1u);
  EXPECT_EQ(plan.tables[0], (TableEdit{0, 1, 2}));
}

TEST_F(SchedulerTest, LongPrompt_IsCutIntoChunks_WithinTheTokenBudget) {
  Make(20, 8, 4);
  ASSERT_FALSE(Submit(1, 20, 2));
  EXPECT_EQ(Step().chunks, (std::vector<Chunk>{{0, 0, 8}}));
  EXPECT_EQ(Step().chunks, (std::vector<Chunk>{{0, 8, 8}}));
  EXPECT_TRUE(sinks_[1].choices[0].tokens.empty());
  EXPECT_EQ(Step().chunks, (std::vector<Chunk>{{0, 16, 4}}));
  EXPECT_EQ(sinks_[1].choices[0].tokens.size(), 1u);
}

TEST_F(SchedulerTest, Decodes_AreServedBeforePrompts_WithinTheTokenBudget) {
  Make(30, 8, 4);
  ASSERT_FALSE(Submit(1, 4, 10));
  Step();
  ASSERT_FALSE(Submit(2, 20, 2));
  const StepPlan plan = Step();
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_EQ(plan.chunks, (std::vector<Chunk>{{1, 0, 7}}));
}

TEST_F(SchedulerTest, LaterRequest_DoesNotOvertake_AnEarlierRequestThatDoesNotFit) {
  Make(6);
  ASSERT_FALSE(Submit(1, 16, 4));  // 4 of 6 blocks
  Step();
  ASSERT_FALSE(Submit(2, 16, 1));  // does not fit beside request 1
  ASSERT_FALSE(Submit(3, 2, 1));   // would fit beside request 1
  const StepPlan plan = Step();
  EXPECT_TRUE(plan.added.empty());
  EXPECT_EQ(engine_->scheduler().num_waiting(), 2);
}

TEST_F(SchedulerTest, NewestRequest_IsPreempted_AndRecomputesWithoutRepeatingTokens) {
  Make(4);
  ASSERT_FALSE(Submit(1, 7, 6));  // this request grows to 3 blocks
  ASSERT_FALSE(Submit(2, 7, 6));
  Step(20);
  Step(21);  // both requests now hold 8 computed tokens in 2 blocks each: the pool is full
  const StepPlan plan = Step(22);
  EXPECT_EQ(plan.decodes, (Slots{0}));
  EXPECT_EQ(plan.released, (Slots{1}));
  EXPECT_EQ(engine_->scheduler().num_waiting(), 1);
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 1);
  while (!engine_->idle()) Step(30);
  EXPECT_EQ(sinks_[1].choices[0].tokens, (std::vector<TokenId>{20, 21, 22, 30, 30, 30}));
  EXPECT_EQ(sinks_[2].choices[0].tokens, (std::vector<TokenId>{20, 21, 30, 30, 30, 30}));
  EXPECT_EQ(engine_->blocks().num_free(), 4);
}

TEST_F(SchedulerTest, Choices_ShareTheirPrompt_AndCopyItsLastBlock) {
  Make(12);
  ASSERT_FALSE(Submit(1, 7, 2, 3));
  StepPlan plan = Step();  // the first choice computes the prompt without its last token
  EXPECT_EQ(plan.chunks, (std::vector<Chunk>{{0, 0, 6}}));
  plan = Step();
  EXPECT_EQ(plan.decodes, (Slots{0, 1, 2}));
  EXPECT_EQ(plan.copies, (std::vector<BlockCopyPair>{{2, 3}, {2, 4}}));  // the third owner writes in place
  ASSERT_EQ(plan.added.size(), 2u);
  EXPECT_EQ(plan.added[0].blocks, (Blocks{1, 4}));
  EXPECT_EQ(plan.added[0].num_computed, 6);
  EXPECT_EQ(plan.added[0].sampling.choice, 1u);
  EXPECT_EQ(plan.added[1].blocks, (Blocks{1, 2}));
  EXPECT_EQ(engine_->blocks().pool().num_held(), 4);  // 1 shared block and 3 blocks of single choices
  while (!engine_->idle()) Step();
  EXPECT_EQ(sinks_[1].choices.size(), 3u);
}

TEST_F(SchedulerTest, SharedPrompt_CountsOnce_AmongTheTokensToCompute) {
  Make(40, 8, 8);
  ASSERT_FALSE(Submit(1, 21, 9, 4));
  const Request& request = *engine_->requests().at(1);
  EXPECT_EQ(request.NumUncomputed(), 24) << "20 tokens once, and the last one for each choice";
  for (const int left : {16, 8, 4, 4}) {
    Step();
    EXPECT_EQ(request.NumUncomputed(), left);
  }
}

TEST_F(SchedulerTest, Choices_Finish_WhenTheyFillThePoolExactly) {
  Make(4);
  ASSERT_FALSE(Submit(1, 3, 2, 4));  // 4 choices of 4 tokens fill 4 blocks exactly
  while (!engine_->idle()) Step();
  for (int choice = 0; choice < 4; ++choice) EXPECT_EQ(sinks_[1].choices[choice].tokens.size(), 2u);
  EXPECT_TRUE(Submit(2, 3, 2, 5).has_value());
}

TEST_F(SchedulerTest, Request_IsRefused_WhenItCanNeverRun) {
  Make(4);
  EXPECT_TRUE(Submit(1, 17, 1).has_value());
  EXPECT_FALSE(Submit(2, 16, 1).has_value());
  EXPECT_TRUE(Submit(3, 16, 2).has_value());
  EXPECT_TRUE(Submit(4, 1, 1000).has_value());
  EXPECT_TRUE(Submit(5, 1, 1, 9).has_value());  // more choices than may run together
}

TEST_F(SchedulerTest, Request_OfExactlyTheMaximumModelLength_IsServed) {
  Make(300);
  EXPECT_TRUE(Submit(1, 901, 100).has_value());
  ASSERT_FALSE(Submit(2, 900, 100));
  while (!engine_->idle()) Step();
  EXPECT_EQ(sinks_[2].choices[0].tokens.size(), 100u);
}

TEST_F(SchedulerTest, Cancel_FreesBlocksAndSlotsImmediately) {
  Make(20);
  ASSERT_FALSE(Submit(1, 9, 10, 2));
  ASSERT_FALSE(Submit(2, 9, 20));
  Step();
  Step();
  engine_->Cancel(1);
  engine_->Cancel(1);
  engine_->scheduler().CheckIntegrity();
  const StepPlan plan = Step();
  EXPECT_EQ(plan.released.size(), 2u);
  engine_->Cancel(2);
  EXPECT_EQ(engine_->blocks().num_free(), 20);
  EXPECT_EQ(engine_->NextPlan(0), nullptr);
}

TEST_F(SchedulerTest, StopToken_EndsTheAnswer_WithoutBeingDelivered) {
  Make(10);
  auto request = MakeRequest(1, {5, 5}, 10, sinks_[1]);
  request->limits.stop_token_ids = {42};
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Step(7);
  Step(42);
  EXPECT_EQ(sinks_[1].choices[0].tokens, (std::vector<TokenId>{7}));
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kStop);
  EXPECT_TRUE(engine_->idle());
}

TEST_F(SchedulerTest, StopToken_IsDelivered_BeforeMinTokens) {
  Make(10);
  auto request = MakeRequest(1, {5, 5}, 10, sinks_[1]);
  request->limits.stop_token_ids = {42};
  request->sampling.min_tokens = 2;
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Step(42);
  Step(42);
  EXPECT_FALSE(engine_->idle());
  Step(42);
  EXPECT_EQ(sinks_[1].choices[0].tokens, (std::vector<TokenId>{42, 42})) << "two tokens of text, then the end";
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kStop);
  EXPECT_TRUE(engine_->idle());
}

TEST_F(SchedulerTest, FailAll_FailsEveryRequest_AndANewEpochStartsClean) {
  Make(10);
  ASSERT_FALSE(Submit(1, 9, 20));
  ASSERT_FALSE(Submit(2, 30, 2));
  Step();
  ASSERT_NE(engine_->NextPlan(0), nullptr);  // this plan is lost
  engine_->FailAll("gone");
  EXPECT_EQ(sinks_[1].error, "gone");
  EXPECT_EQ(sinks_[2].error, "gone");
  EXPECT_EQ(engine_->blocks().num_free(), 10);
  engine_->StartEpoch(2);
  ASSERT_FALSE(Submit(3, 2, 1));
  const StepPlan plan = Step();
  EXPECT_EQ(plan.epoch, 2u);
  EXPECT_EQ(plan.step, 1u);
  EXPECT_TRUE(plan.released.empty());
}

TEST_F(SchedulerTest, Request_Fails_WhenItsLogitsAreNaN_AndOtherRequestsFinish) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Make(20);
  ASSERT_FALSE(Submit(1, 4, 5, 2));
  ASSERT_FALSE(Submit(2, 4, 2));
  Step();  // the prompts
  auto tokens = Draws(*engine_->NextPlan(0), 9);
  ASSERT_EQ(tokens.size(), 3u);
  tokens.front().logprob = kNaN;  // the sampled token of one of the two choices
  ASSERT_TRUE(engine_->Fits(tokens));
  engine_->CommitStep(tokens);
  engine_->scheduler().CheckIntegrity();
  while (!engine_->idle()) Step();
  EXPECT_NE(sinks_[1].error.find("no numbers"), std::string::npos);
  EXPECT_TRUE(sinks_[2].error.empty());
  EXPECT_EQ(sinks_[2].choices[0].tokens.size(), 2u);
  EXPECT_EQ(engine_->blocks().num_free(), engine_->blocks().num_usable());
  EXPECT_EQ(engine_->stats().finished_abort, 2);
}

class TextsOfDecisions : public DecisionLog {
 public:
  void OnDecision(const Decision& decision) override { texts.push_back(Describe(decision)); }
  std::vector<std::string> texts;
};

TEST_F(SchedulerTest, OverdueRequests_Fail_AndOtherRequestsStay) {
  Make(6);
  TextsOfDecisions decisions;
  engine_->set_watcher(&decisions);
  ASSERT_FALSE(Submit(1, 16, 5));  // fills the pool; arrived at time 0
  ASSERT_NE(engine_->NextPlan(1), nullptr);
  engine_->CommitStep({{0, 9, 0, {}}});
  ASSERT_FALSE(Submit(2, 16, 5));  // this request waits
  engine_->ExpireOverdue(59);
  EXPECT_EQ(engine_->requests().size(), 2u);
  engine_->ExpireOverdue(61.5);
  EXPECT_EQ(engine_->requests().size(), 1u);
  EXPECT_EQ(decisions.texts.back(), "request 2 waited too long: no room 61.500 s after it came, 60.000 s are allowed");
  EXPECT_NE(sinks_[2].error.find("queue"), std::string::npos);
  engine_->ExpireOverdue(601);
  EXPECT_TRUE(engine_->idle());
  EXPECT_NE(sinks_[1].error.find("600"), std::string::npos);
  EXPECT_EQ(decisions.texts.back(), "request 1 timed out: not done 601.000 s after it came, 600.000 s are allowed");
  EXPECT_EQ(engine_->blocks().num_free(), 6);
}

// --- preemption by swap ---

TEST_F(SchedulerTest, SwappedRequest_Resumes_WithoutRecomputation) {
  change_ = [](EngineOptions& o) {
    o.blocks.num_host_blocks = 4;
    o.scheduler.preemption = PreemptionMode::kSwap;
  };
  Make(4);
  ASSERT_FALSE(Submit(1, 7, 6));
  ASSERT_FALSE(Submit(2, 7, 6));
  Step(20);
  Step(21);
  StepPlan plan = Step(22);  // the pool is full: request 2 is preempted
  EXPECT_EQ(plan.swap_outs, (std::vector<BlockCopyPair>{{3, 1}, {4, 2}}));
  EXPECT_EQ(plan.released, (Slots{1}));
  EXPECT_EQ(engine_->scheduler().num_swapped_out(), 1);
  EXPECT_EQ(engine_->blocks().host_pool().num_held(), 2);
  while (plan.swap_ins.empty()) plan = Step(30);
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].num_computed, 8) << "everything it had computed";
  EXPECT_EQ(plan.swap_ins.size(), 2u);
  while (!engine_->idle()) Step(30);
  EXPECT_EQ(sinks_[2].choices[0].tokens, (std::vector<TokenId>{20, 21, 30, 30, 30, 30}));
  EXPECT_EQ(engine_->stats().computed_tokens, 2 * (7 + 6 - 1));
  EXPECT_EQ(engine_->blocks().host_pool().num_held(), 0);
}

TEST_F(SchedulerTest, Preemption_TakesTheCheaperOfSwapAndRecomputation) {
  for (const bool swap_is_fast : {true, false}) {
    change_ = [](EngineOptions& o) {
      o.blocks.num_host_blocks = 4;
      o.scheduler.preemption = PreemptionMode::kAuto;
    };
    Make(14, 64);
    engine_->SetSwapSpeed(swap_is_fast ? 1e-6 : 1.0);
    ASSERT_FALSE(Submit(1, 39, 14));
    const StepPlan* plan = engine_->NextPlan(0);
    engine_->CommitStep(Draws(*plan, 9), {40'000, 0});  // 1 ms for each token
    ASSERT_FALSE(Submit(2, 7, 8));
    while (!engine_->idle()) Step();
    EXPECT_EQ(engine_->scheduler().num_preemptions(), 1);
    EXPECT_EQ(engine_->scheduler().num_swapped_out(), swap_is_fast ? 1 : 0);
    sinks_.clear();
  }
}

TEST_F(SchedulerTest, PreemptedRequest_IsRecomputed_WhenHostBlocksAreShort) {
  change_ = [](EngineOptions& o) {
    o.blocks.num_host_blocks = 1;
    o.scheduler.preemption = PreemptionMode::kSwap;
  };
  Make(4);
  ASSERT_FALSE(Submit(1, 7, 6));
  ASSERT_FALSE(Submit(2, 7, 6));
  while (!engine_->idle()) Step();
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 1);
  EXPECT_EQ(engine_->scheduler().num_swapped_out(), 0);
}

// --- order of service ---

/// Submits requests for one token each, and records the order in which they end.
class OrderTest : public SchedulerTest {
 protected:
  void Add(RequestId id, const std::string& client, double arrival, int priority = 0, int prompt = 4) {
    auto request = MakeRequest(id, std::vector<TokenId>(static_cast<size_t>(prompt), 5), 1, sinks_[id]);
    request->client = client;
    request->arrival_seconds = arrival;
    request->priority = priority;
    ASSERT_FALSE(engine_->Submit(std::move(request)));
  }
  /// Runs steps until all requests have ended; returns the ids in the order in which the requests ended.
  std::vector<RequestId> Order() {
    std::vector<RequestId> order;
    while (!engine_->idle()) {
      std::set<RequestId> before;
      for (const auto& [id, request] : engine_->requests()) before.insert(id);
      Step();
      for (const RequestId id : before) {
        if (!engine_->requests().contains(id)) order.push_back(id);
      }
    }
    return order;
  }
};

TEST_F(OrderTest, RequestOfTheLeastServedClient_IsAdmittedNext) {
  Make(10, 8, 1);
  for (const RequestId id : {1, 2, 3, 4}) Add(id, "busy", 0);
  Add(5, "quiet", 0);
  Add(6, "quiet", 0);
  EXPECT_EQ(Order(), (std::vector<RequestId>{1, 5, 2, 6, 3, 4})) << "by turns, as long as both want";
}

TEST_F(OrderTest, LongPrompts_CountMore_InAClientsService) {
  Make(20, 32, 1);
  Add(1, "long", 0, 0, 30);
  Add(2, "long", 0, 0, 30);
  for (const RequestId id : {3, 4, 5, 6}) Add(id, "short", 0);
  EXPECT_EQ(Order(), (std::vector<RequestId>{1, 3, 4, 5, 6, 2}));
}

TEST_F(OrderTest, GeneratedTokens_CountDouble_InAClientsService) {
  Make(20, 32, 1);
  auto talker = MakeRequest(1, {5, 5, 5, 5}, 6, sinks_[1]);
  talker->client = "talks";
  ASSERT_FALSE(engine_->Submit(std::move(talker)));
  Add(2, "talks", 1);
  Add(3, "listens", 0, 0, 12);
  Add(4, "listens", 1, 0, 12);
  EXPECT_EQ(Order(), (std::vector<RequestId>{1, 3, 4, 2})) << "4 + 2 * 6 is more than 12 + 2 * 1";
  const auto& clients = engine_->scheduler().queue().clients();
  EXPECT_EQ(clients.at("talks").served, 4 + 2 * 6 + 4 + 2 * 1);
  EXPECT_EQ(clients.at("listens").served, 2 * (12 + 2 * 1));
}

TEST_F(OrderTest, NewClient_StartsLevelWithActiveClients_WhenItArrivesLater) {
  Make(10, 8, 1);
  for (const RequestId id : {1, 2, 3, 4}) Add(id, "a", 0);
  Step();
  Step();
  Add(5, "b", 1);  // client b arrives after client a was served twice, and starts level with client a
  Add(6, "b", 1);
  EXPECT_EQ(Order(), (std::vector<RequestId>{3, 5, 4, 6}));
}

TEST_F(OrderTest, Priorities_OrderRequestsOfAClient_UntilWaitingOutweighsThem) {
  Make(10, 8, 1);
  Add(1, "", 0, 2);
  Add(2, "", 10, 0);
  Add(3, "", 20, -1);
  Add(4, "", 100, -1);  // arrives long after the first request; one level of priority is worth 30 seconds
  EXPECT_EQ(Order(), (std::vector<RequestId>{3, 2, 1, 4}));
}

TEST_F(OrderTest, Priority_DoesNotPreemptRunningRequests) {
  Make(4, 64, 4);
  ASSERT_FALSE(Submit(1, 7, 6));
  Step();
  auto urgent = MakeRequest(2, std::vector<TokenId>(7, 5), 6, sinks_[2]);
  urgent->priority = -5;
  ASSERT_FALSE(engine_->Submit(std::move(urgent)));
  while (sinks_[1].choices[0].tokens.size() < 6) Step();
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 1);
  EXPECT_LT(sinks_[2].choices[0].tokens.size(), 6u) << "the one that came later gave way";
}

TEST_F(OrderTest, IdleClients_AreForgotten_LongestIdleFirst) {
  Make(10, 8, 1);
  for (RequestId id = 1; id <= 1100; ++id) {
    Add(id, "client " + std::to_string(id), static_cast<double>(id));
    Step();
  }
  const auto& clients = engine_->scheduler().queue().clients();
  EXPECT_LE(clients.size(), WaitingQueue::kMaxIdleClients + 1);
  EXPECT_FALSE(clients.contains("client 1"));
  EXPECT_TRUE(clients.contains("client 1100"));
}

// --- decodes before chunks ---

/// Steps of 8 tokens for one client. Younger requests decode while an older request still computes its prompt.
class DecodesFirstTest : public SchedulerTest {
 protected:
  void Add(RequestId id, double arrival, int prompt, int priority = 0, int n = 1) {
    auto request = MakeRequest(id, std::vector<TokenId>(static_cast<size_t>(prompt), static_cast<TokenId>(id)), 100,
                               sinks_[id], n);
    request->arrival_seconds = arrival;
    request->priority = priority;
    ASSERT_FALSE(engine_->Submit(std::move(request)));
  }
  /// Runs steps, each of which must decode every sequence that has one token to compute. Returns the number of decodes
  /// in steps that also compute prompts.
  int DecodesBesideChunks(int steps) {
    int beside = 0;
    for (int i = 0; i < steps; ++i) {
      std::vector<SlotId> ready;
      for (const Request* request : engine_->scheduler().running()) {
        for (const Sequence& s : request->sequences) {
          if (s.slot && s.length() - s.num_planned() == 1) ready.push_back(*s.slot);
        }
      }
      const StepPlan plan = Step();
      for (const SlotId slot : ready) EXPECT_TRUE(std::ranges::count(plan.decodes, slot) == 1) << "step " << i;
      if (!plan.chunks.empty()) beside += static_cast<int>(ready.size());
    }
    return beside;
  }
};

TEST_F(DecodesFirstTest, Decodes_AreServed_BesideTheLongPromptOfAnOlderRequestOfLowPriority) {
  Make(200, 8, 4);
  Add(1, 0, 60);
  Add(2, 10, 4, -1);
  Step();
  ASSERT_EQ(sinks_[2].choices[0].tokens.size(), 1u) << "it was admitted first";
  EXPECT_EQ(Step().chunks, (std::vector<Chunk>{{1, 4, 7}})) << "the older request gets what the decode leaves";
  EXPECT_GE(DecodesBesideChunks(6), 6);
}

TEST_F(DecodesFirstTest, Decodes_AreServed_BesideAnOlderRequestThatArrivesFromAnotherEngine) {
  Make(200, 8, 4);
  Add(2, 10, 4);
  Step();
  auto older = MakeRequest(1, std::vector<TokenId>(60, 5), 100, sinks_[1]);
  older->arrival_seconds = 1;
  older->num_preemptions = 1;
  ASSERT_FALSE(engine_->Adopt(older, 0, {}));
  EXPECT_GE(DecodesBesideChunks(8), 8);
}

TEST_F(DecodesFirstTest, Decodes_AreServed_BesideAnOlderRequestWhoseChoicesAreReadmitted) {
  Make(200, 8, 4);
  Add(1, 0, 12, 0, 2);
  Add(2, 1, 2);
  for (int i = 0; i < 14; ++i) Step();
  engine_->StartEpoch(2, engine_->blocks().sizes());
  // The prompt ends in the middle of a step, which admits the younger request. Both choices still have prompt to
  // compute.
  EXPECT_GE(DecodesBesideChunks(12), 2);
}

TEST_F(DecodesFirstTest, Decodes_AreServed_BesideTheLongerChoicesOfTheirRequest) {
  Make(200, 8, 4);
  auto request = MakeRequest(1, std::vector<TokenId>(4, 5), 100, sinks_[1], 2);
  request->num_preemptions = 1;
  request->sequences[0].tokens.resize(40, 9);  // the other choice has no generated token yet
  ASSERT_FALSE(engine_->Adopt(request, 0, {}));
  EXPECT_GE(DecodesBesideChunks(6), 4);
  EXPECT_GE(sinks_[1].choices[1].tokens.size(), 4u);
}

TEST_F(DecodesFirstTest, Decodes_AreServed_BesideAnOlderRequestThatWaitedForItsPrefix) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(200, 8, 4);
  std::vector<TokenId> prompt(8, 5);
  ASSERT_FALSE(engine_->Submit(MakeRequest(1, std::vector<TokenId>(5, 5), 100, sinks_[1])));
  prompt.resize(60, 6);
  ASSERT_FALSE(engine_->Submit(MakeRequest(2, prompt, 100, sinks_[2])));  // waits for the first block of request 1
  ASSERT_FALSE(engine_->Submit(MakeRequest(3, std::vector<TokenId>(2, 7), 100, sinks_[3])));
  Step();
  ASSERT_EQ(sinks_[3].choices[0].tokens.size(), 1u) << "there was room for the youngest";
  EXPECT_GE(DecodesBesideChunks(6), 12);
}

TEST_F(SchedulerTest, StepPlan_NeverExceedsTheSizeOfAFrame) {
  change_ = [](EngineOptions& o) {
    o.blocks.prefix_caching = true;
    o.blocks.block_size = 16;
    o.max_model_len = 200'000;
  };
  Make(12'000, 8192, 100);
  std::vector<TokenId> prompt(100'000, 7);
  for (RequestId id = 1; id <= 90; ++id) ASSERT_FALSE(engine_->Submit(MakeRequest(id, prompt, 3, sinks_[id])));
  size_t largest = 0;
  while (!engine_->idle()) {
    const StepPlan* plan = engine_->NextPlan(0);
    size_t bytes = 0;
    for (const AddedSequence& a : plan->added) bytes += 4 * (a.tokens.size() + a.blocks.size());
    largest = std::max(largest, bytes);
    engine_->CommitStep(Draws(*plan, 9), {1'000, 0});
  }
  EXPECT_GT(largest, 10u << 20) << "many did come together";
  EXPECT_LE(largest, 16u << 20);
}

TEST_F(OrderTest, Request_Fails_AtItsOwnDeadline) {
  Make(60);
  auto request = MakeRequest(1, {5, 5}, 100, sinks_[1]);
  request->limits.max_seconds = 5;
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  ASSERT_FALSE(Submit(2, 2, 100));
  Step();
  engine_->ExpireOverdue(4.9);
  EXPECT_EQ(engine_->requests().size(), 2u);
  engine_->ExpireOverdue(5.1);
  EXPECT_EQ(engine_->requests().size(), 1u);
  EXPECT_NE(sinks_[1].error.find("5"), std::string::npos);
}

TEST_F(OrderTest, OverdueRequest_Fails_WhenRoundingMakesItsAgeEqualToItsLimit) {
  Make(60);
  auto request = MakeRequest(1, {5, 5}, 100, sinks_[1]);
  request->arrival_seconds = 1.1;
  request->limits.max_seconds = 5;
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Step();
  const double just_late = std::nextafter(1.1 + 5, 7.0);
  ASSERT_LE(just_late - 1.1, 5) << "rounding makes its age the limit itself";
  engine_->ExpireOverdue(just_late);
  engine_->ExpireOverdue(30);
  EXPECT_TRUE(engine_->idle());
}

// --- prefixes and windows ---

TEST_F(SchedulerTest, SharedPrefix_IsComputedOnce_WhenRequestsArriveTogether) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(100, 32, 16);
  for (RequestId id = 1; id <= 16; ++id) {
    std::vector<TokenId> prompt(40, 7);
    prompt.push_back(static_cast<TokenId>(id));
    ASSERT_FALSE(engine_->Submit(MakeRequest(id, prompt, 2, sinks_[id])));
  }
  while (!engine_->idle()) Step();
  EXPECT_EQ(engine_->stats().computed_tokens, 40 + 16 * 2);
  EXPECT_EQ(engine_->stats().cached_tokens, 15 * 40);
}

TEST_F(SchedulerTest, ScoredPrompt_IsComputedDespiteTheCache_AndFillsTheCache) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(100, 64, 16);
  const SamplingSpec scored{.temperature = 0, .num_prompt_logprobs = 0};
  const std::vector<TokenId> prompt(41, 7);
  for (RequestId id = 1; id <= 2; ++id) {
    ASSERT_FALSE(engine_->Submit(MakeRequest(id, prompt, 1, sinks_[id], 1, scored)));
    while (!engine_->idle()) Step();
  }
  EXPECT_EQ(engine_->stats().computed_tokens, 2 * 41) << "the second time, too";
  EXPECT_EQ(engine_->stats().cached_tokens, 0);
  ASSERT_FALSE(engine_->Submit(MakeRequest(3, prompt, 1, sinks_[3])));
  while (!engine_->idle()) Step();
  EXPECT_EQ(engine_->stats().cached_tokens, 40) << "for one that wants no scores";
}

TEST_F(SchedulerTest, ScoredPrompt_UsesTheCache_ForTokensScoredBeforeItsMove) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(100, 21, 4);
  const SamplingSpec scored{.temperature = 0, .num_prompt_logprobs = 0};
  ASSERT_FALSE(engine_->Submit(MakeRequest(1, std::vector<TokenId>(40, 7), 1, sinks_[1], 1, scored)));
  Step();  // 11 tokens with 11 scored rows; the budget counts 10 of the rows
  EXPECT_EQ(engine_->requests().at(1)->num_scored, 11);
  std::optional<Departure> departure = engine_->Depart(1, 0, 0);
  ASSERT_FALSE(engine_->Adopt(departure->request, 0, {}));
  const StepPlan plan = Step();
  ASSERT_EQ(plan.chunks.size(), 1u);
  EXPECT_EQ(plan.chunks[0].start, 8) << "two blocks of rows that are scored";
  EXPECT_EQ(plan.added[0].num_scored, 11);
}

TEST_F(SchedulerTest, ScoredRows_CountAsTokens_InTheStepsBudget) {
  Make(100, 21, 4);
  const SamplingSpec scored{.temperature = 0, .num_prompt_logprobs = 0};
  ASSERT_FALSE(engine_->Submit(MakeRequest(1, std::vector<TokenId>(30, 7), 1, sinks_[1], 1, scored)));
  const std::vector<Chunk> first = Step().chunks, second = Step().chunks, third = Step().chunks;
  EXPECT_EQ(first, (std::vector<Chunk>{{0, 0, 11}})) << "11 tokens and 10 of their rows";
  EXPECT_EQ(second, (std::vector<Chunk>{{0, 11, 11}}));
  EXPECT_EQ(third, (std::vector<Chunk>{{0, 22, 8}})) << "the last token has no row to score";
  EXPECT_TRUE(engine_->idle());
}

TEST_F(SchedulerTest, PooledPrompt_UsesTheCache_OnlyForLastTokenPooling) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(100, 64, 16);
  const std::vector<TokenId> prompt(41, 7);
  RequestId id = 0;
  const auto computed = [&](Pooling pooling) {
    const int64_t before = engine_->stats().computed_tokens;
    const SamplingSpec sampling{.temperature = 0, .pooling = pooling};
    EXPECT_FALSE(engine_->Submit(MakeRequest(++id, prompt, 1, sinks_[id], 1, sampling)));
    while (!engine_->idle()) Step();
    return engine_->stats().computed_tokens - before;
  };
  EXPECT_EQ(computed(Pooling::kMean), 41);
  EXPECT_EQ(computed(Pooling::kLast), 1);
  EXPECT_EQ(computed(Pooling::kMean), 41);
  EXPECT_EQ(computed(Pooling::kCls), 41);
  const SamplingSpec mean{.temperature = 0, .pooling = Pooling::kMean};
  EXPECT_TRUE(engine_->Submit(MakeRequest(9, prompt, 1, sinks_[9], 2, mean))) << "choices share what they compute";
}

TEST_F(SchedulerTest, PooledPromptOfOneToken_IsPlannedAsAChunk) {
  Make(10);
  const SamplingSpec last{.temperature = 0, .pooling = Pooling::kLast};
  ASSERT_FALSE(engine_->Submit(MakeRequest(1, {7}, 1, sinks_[1], 1, last)));
  const StepPlan* plan = engine_->NextPlan(0);
  EXPECT_EQ(plan->chunks, (std::vector<Chunk>{{0, 0, 1}}));
  EXPECT_TRUE(plan->decodes.empty());
  std::vector<SampledToken> drawn = {{0, 9, 0, {}}};
  EXPECT_FALSE(engine_->Fits(drawn)) << "without the vector";
  drawn[0].pooled = {0.5f};
  EXPECT_TRUE(engine_->Fits(drawn));
  engine_->CommitStep(drawn);
  EXPECT_EQ(sinks_[1].pooled, (std::vector<float>{0.5f}));
  ASSERT_FALSE(Submit(2, 1, 1));
  ASSERT_EQ(engine_->NextPlan(0)->decodes.size(), 1u);
  EXPECT_FALSE(engine_->Fits(drawn)) << "nobody asked for a vector";
}

TEST_F(SchedulerTest, Request_Fails_WhenItsPromptScoresAreNaN_AndOtherRequestsFinish) {
  Make(100);
  const SamplingSpec scored{.temperature = 0, .num_prompt_logprobs = 0};
  ASSERT_FALSE(engine_->Submit(MakeRequest(1, {5, 6, 7}, 2, sinks_[1], 1, scored)));
  ASSERT_FALSE(engine_->Submit(MakeRequest(2, {5, 6, 7}, 2, sinks_[2], 1, scored)));
  const StepPlan plan = *engine_->NextPlan(0);
  const SlotId broken = plan.added[0].slot, whole = plan.added[1].slot;
  std::vector<PromptScores> scores = {{broken, 0, 0, {-1.0f, std::nanf("")}, {1, 1}, {}},
                                      {whole, 0, 0, {-1.0f, -2.0f}, {1, 1}, {}}};
  std::ranges::sort(scores, {}, &PromptScores::slot);
  ASSERT_TRUE(engine_->Fits(scores));
  engine_->CommitStep(Draws(plan, 9), {}, scores);
  EXPECT_NE(sinks_[1].error.find("no numbers"), std::string::npos);
  EXPECT_EQ(sinks_[2].prompt_logprobs, (std::vector<float>{-1, -2}));
  EXPECT_EQ(sinks_[2].error, "");
}

TEST_F(SchedulerTest, SmallPool_ServesManyRequests_ThatShareOnePrefix) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(14, 64, 16);  // 10 blocks for the prefix, and 4 more
  for (RequestId id = 1; id <= 5; ++id) {
    std::vector<TokenId> prompt(40, 7);
    prompt.push_back(static_cast<TokenId>(id));
    ASSERT_FALSE(engine_->Submit(MakeRequest(id, prompt, 3, sinks_[id])));
  }
  Step();
  Step();
  EXPECT_GE(engine_->scheduler().num_running(), 3) << "what is shared is not counted against the newcomers";
  while (!engine_->idle()) Step();
  EXPECT_EQ(engine_->stats().cached_tokens, 4 * 40);
}

TEST_F(SchedulerTest, Pin_IsBroken_WhenARequestCannotRunBesideIt) {
  change_ = [](EngineOptions& o) { o.blocks.prefix_caching = true; };
  Make(8);
  ASSERT_FALSE(Submit(1, 17, 1));
  while (!engine_->idle()) Step();
  ASSERT_TRUE(engine_->PinPrefix("", std::vector<TokenId>(16, 5), 1e9));
  ASSERT_FALSE(engine_->Submit(MakeRequest(2, std::vector<TokenId>(30, 6), 3, sinks_[2])));
  while (!engine_->idle()) Step();
  EXPECT_EQ(sinks_[2].choices[0].finished, FinishReason::kLength);
  EXPECT_TRUE(engine_->blocks().pins().all().empty());
}

TEST_F(SchedulerTest, SmallPool_ServesALongAnswer_WithASlidingWindow) {
  change_ = [](EngineOptions& o) { o.blocks.sliding_window = 8; };
  Make(8, 8, 2);
  ASSERT_FALSE(Submit(1, 10, 300));
  int most = 0;
  while (!engine_->idle()) {
    Step();
    most = std::max(most, engine_->blocks().pool().num_held());
  }
  EXPECT_EQ(sinks_[1].choices[0].tokens.size(), 300u);
  EXPECT_LE(most, 5);
}

// Runs random arrivals, lengths, choices and cancellations, with pools of many sizes. The invariants must hold after
// every step, every request must end, and no block may leak.
TEST_F(SchedulerTest, Invariants_Hold_UnderRandomTraffic) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    test::Random random(seed);
    const int blocks = static_cast<int>(random.Between(1, 40)), most = static_cast<int>(random.Between(4, 40));
    Make(blocks, most, 4);
    sinks_.clear();
    RequestId next = 1;
    for (int step = 0; step < 200 || !engine_->idle(); ++step) {
      ASSERT_LT(step, 20000) << "seed " << seed << ": no progress";
      if (step < 200 && random.Below(4) == 0) {
        sinks_[next].stop_after = random.Below(5) == 0 ? 2 : 0;
        Submit(next, static_cast<int>(random.Between(1, 30)), static_cast<int>(random.Between(1, 20)),
               static_cast<int>(random.Between(1, 4)));
        ++next;
      }
      if (random.Below(30) == 0) engine_->Cancel(static_cast<RequestId>(random.Between(1, static_cast<int64_t>(next))));
      if (engine_->idle()) continue;
      const StepPlan plan = Step(static_cast<TokenId>(random.Below(100)));
      auto tokens = static_cast<int>(plan.decodes.size());
      for (const Chunk& chunk : plan.chunks) tokens += chunk.count;
      ASSERT_LE(tokens, most) << "seed " << seed;
    }
    ASSERT_EQ(engine_->blocks().num_free(), engine_->blocks().num_usable()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
