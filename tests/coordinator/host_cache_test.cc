#include "coordinator/core/blocks/host_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;

constexpr int kPrompt = 40;  // tokens of a prompt: ten blocks

std::vector<TokenId> PromptOf(TokenId which) {
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < kPrompt; ++i) prompt.push_back(100 * which + i);
  return prompt;
}

struct Decisions : DecisionLog {
  void OnDecision(const Decision& decision) override { texts.push_back(Describe(decision)); }
  bool Have(const std::string& text) const { return std::ranges::find(texts, text) != texts.end(); }
  std::vector<std::string> texts;
};

/// An engine whose device pool holds two prompts, and whose host pool holds four. A step takes 0.1 s, and moving a
/// block takes 10 us.
class HostCacheTest : public testing::Test {
 protected:
  void Make(const std::function<void(EngineOptions&)>& change = {}) {
    EngineOptions options;
    options.scheduler.max_step_tokens = 64;
    options.scheduler.max_running = 8;
    options.scheduler.lookahead_tokens = 0;
    options.scheduler.preemption = PreemptionMode::kSwap;
    options.blocks.num_blocks = 25;
    options.blocks.block_size = 4;
    options.blocks.num_host_blocks = 40;
    options.blocks.watermark = 0;
    options.max_model_len = 1000;
    if (change) change(options);
    engine_ = std::make_unique<Engine>(options);
    engine_->SetSwapSpeed(1e-5);
    engine_->set_watcher(&decisions_);
  }

  StepPlan Step() {
    const StepPlan* next = engine_->NextPlan(0);
    EXPECT_NE(next, nullptr);
    const StepPlan plan = *next;
    engine_->scheduler().CheckIntegrity();
    std::vector<SampledToken> tokens;
    for (const SlotId slot : plan.decodes) tokens.push_back({slot, 9, 0, {}});
    for (const Chunk& chunk : plan.chunks) {
      for (const Request* request : engine_->scheduler().running()) {
        for (const Sequence& s : request->sequences) {
          if (s.slot == chunk.slot && chunk.start + chunk.count == s.num_tokens())
            tokens.push_back({chunk.slot, 9, 0, {}});
        }
      }
    }
    engine_->CommitStep(tokens, {100'000, 0});
    engine_->scheduler().CheckIntegrity();
    return plan;
  }

  /// Serves the prompt PromptOf(which) with max_tokens answer tokens. Returns the first plan.
  StepPlan Serve(TokenId which, int max_tokens = 4) {
    const RequestId id = ++last_;
    EXPECT_FALSE(engine_->Submit(MakeRequest(id, PromptOf(which), max_tokens, sinks_[id])));
    const StepPlan first = Step();
    while (!engine_->idle()) Step();
    return first;
  }

  const HostCache& host() const { return engine_->blocks().host_cache(); }

  Decisions decisions_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
  RequestId last_ = 0;
};

TEST_F(HostCacheTest, Request_FindsItsBlocksOnTheHost_AfterTheDevicePoolReusedThem) {
  Make();
  for (const TokenId which : {1, 2, 3}) Serve(which);
  const StepPlan plan = Serve(1);
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].num_computed, 36) << "the last token is always computed, so its block does not come";
  EXPECT_EQ(plan.swap_ins.size(), 6u) << "the device has the first three still, which are reused last";
  EXPECT_EQ(plan.chunks.front().start, 36);
  EXPECT_EQ(sinks_[4].cached, 36);
  EXPECT_EQ(host().num_found(), 6);
  EXPECT_TRUE(decisions_.Have("request 4 6 cached blocks come back from the host, 21 were free"));
}

TEST_F(HostCacheTest, CopiesBroughtBackFromTheHost_AreSharedOnTheDevice) {
  Make();
  for (const TokenId which : {1, 2, 3, 1}) Serve(which);
  const StepPlan plan = Serve(1);
  EXPECT_TRUE(plan.swap_ins.empty());
  EXPECT_EQ(sinks_[5].cached, 36);
}

TEST_F(HostCacheTest, Blocks_AreCopiedBesideSteps_AFewAtATime) {
  Make([](EngineOptions& o) { o.blocks.num_host_blocks = 100; });
  engine_->SetSwapSpeed(1e-3);  // five moves take 5 % of a step
  Serve(1, 2);
  EXPECT_EQ(host().num_copied(), 0) << "its blocks were in use";
  ASSERT_FALSE(engine_->Submit(MakeRequest(2, PromptOf(2), 4, sinks_[2])));
  const StepPlan plan = Step();
  EXPECT_EQ(plan.swap_outs.size(), 5u);
  EXPECT_EQ(host().num_copies(), 5);
}

TEST_F(HostCacheTest, CopiesOfBlocksStillCachedOnTheDevice_TakeAtMostHalfOfTheHostPool) {
  Make([](EngineOptions& o) { o.blocks.num_host_blocks = 8; });
  Serve(1);
  Serve(2, 1);
  EXPECT_EQ(host().num_copies(), 4);
}

TEST_F(HostCacheTest, NothingIsCopiedOrFound_WhereMovingTakesLongerThanComputing) {
  Make();
  engine_->SetSwapSpeed(1);
  for (const TokenId which : {1, 2, 3, 1}) Serve(which);
  EXPECT_EQ(host().num_copied(), 0);
  EXPECT_EQ(host().num_found(), 0);
}

TEST_F(HostCacheTest, Copies_AreNotUsed_WhenMovingBlocksBecomesSlow) {
  Make();
  for (const TokenId which : {1, 2, 3}) Serve(which);
  ASSERT_GT(host().num_copies(), 9);
  engine_->SetSwapSpeed(1);
  EXPECT_TRUE(Serve(1).swap_ins.empty());
  EXPECT_EQ(sinks_[4].cached, 12) << "what the device has still";
}

TEST_F(HostCacheTest, SwappedOutRequests_TakeHostBlocksFromCachedCopies) {
  Make([](EngineOptions& o) { o.blocks.num_host_blocks = 24; });
  for (const TokenId which : {1, 2, 3}) Serve(which);
  const int copies = host().num_copies();
  ASSERT_GT(copies, 12);
  ASSERT_FALSE(engine_->Submit(MakeRequest(11, PromptOf(4), 12, sinks_[11])));
  ASSERT_FALSE(engine_->Submit(MakeRequest(12, PromptOf(5), 12, sinks_[12])));
  while (engine_->scheduler().num_swapped_out() == 0) Step();
  EXPECT_GT(engine_->blocks().host_pool().num_held(), 10);
  EXPECT_LT(host().num_copies(), copies);
  while (!engine_->idle()) Step();
  EXPECT_EQ(sinks_[12].choices[0].tokens.size(), 12u);
}

TEST_F(HostCacheTest, Copies_AreForgotten_WhenTheCacheIsFlushedOrTheWorkersAreReplaced) {
  for (const bool is_flushed : {true, false}) {
    Make();
    for (const TokenId which : {1, 2, 3}) Serve(which);
    ASSERT_GT(host().num_copies(), 0);
    is_flushed ? engine_->FlushCache() : engine_->StartEpoch(2);
    EXPECT_EQ(host().num_copies(), 0);
    EXPECT_EQ(engine_->blocks().host_pool().num_cached(), 0);
    EXPECT_TRUE(Serve(1).swap_ins.empty());
  }
}

TEST_F(HostCacheTest, Choices_TakeTheirPromptFromTheHostOnce) {
  Make();
  for (const TokenId which : {1, 2, 3}) Serve(which);
  ASSERT_FALSE(engine_->Submit(MakeRequest(9, PromptOf(1), 2, sinks_[9], 2)));
  const StepPlan plan = Step();
  EXPECT_EQ(plan.swap_ins.size(), 6u);
  while (!engine_->idle()) Step();
  EXPECT_EQ(sinks_[9].cached, 36);
  EXPECT_EQ(sinks_[9].choices[1].tokens.size(), 2u);
}

TEST_F(HostCacheTest, Request_BeginsAtAStateFromTheHost_WhereTheModelHasStates) {
  Make([](EngineOptions& o) {
    o.blocks.state_blocks = 2;
    o.blocks.state_spacing = 8;
  });
  for (const TokenId which : {1, 2, 3}) Serve(which);
  const StepPlan plan = Serve(1);
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.added[0].num_computed, 36) << "a state is kept behind a prompt's last full block";
  EXPECT_GT(plan.swap_ins.size(), 2u);
  EXPECT_EQ(plan.added[0].state.size(), 2u);
  EXPECT_EQ(plan.swap_ins.back().destination, plan.added[0].state.back());
}

TEST_F(HostCacheTest, NothingIsCopied_WithoutAPrefixCache_OrHostBlocks_OrWithWindows) {
  const std::function<void(EngineOptions&)> changes[] = {[](EngineOptions& o) { o.blocks.sliding_window = 16; },
                                                         [](EngineOptions& o) { o.blocks.prefix_caching = false; },
                                                         [](EngineOptions& o) { o.blocks.num_host_blocks = 0; }};
  for (const auto& change : changes) {
    Make(change);
    for (const TokenId which : {1, 2, 3, 1}) Serve(which);
    EXPECT_EQ(host().num_copied(), 0);
  }
}

}  // namespace
}  // namespace quire
