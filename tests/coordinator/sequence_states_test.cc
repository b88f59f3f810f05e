#include "coordinator/core/blocks/sequence_states.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>

#include "coordinator/core/blocks/draft_counts.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using Blocks = std::vector<BlockId>;
using Copies = std::vector<BlockCopyPair>;

BlockManagerOptions StateOptions(int num_blocks) {
  BlockManagerOptions options;
  options.num_blocks = num_blocks;
  options.block_size = 4;
  options.num_host_blocks = 12;
  options.watermark = 0;
  options.state_blocks = 2;
  options.state_spacing = 1;
  return options;
}

/// Returns the tokens first, first + 1, and so on.
std::vector<TokenId> PlacedTokens(int count, TokenId first = 1) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class SequenceStatesTest : public testing::Test {
 protected:
  Sequence Prompt(std::vector<TokenId> tokens) {
    Sequence s;
    s.num_prompt_tokens = static_cast<int>(tokens.size());
    s.tokens = std::move(tokens);
    s.contents.root = manager_->prefixes().Root("");
    s.contents.Restart();
    return s;
  }
  /// Plans the step that computes the sequence up to position `end`. Grow keeps the old state as a checkpoint only if
  /// `reserved` more blocks are free.
  void Grow(Sequence& s, int end, int reserved = 0) {
    plan_.Clear();
    manager_->Grow(s, end, plan_, reserved);
    manager_->states().Settle();
  }
  /// Computes the sequence up to `end` in as many steps as needed, and commits each result before the next step.
  void Compute(Sequence& s, int end) {
    while (s.num_computed < end) {
      const int cut = manager_->states().CutAt(s, s.num_computed, end);
      Grow(s, cut);
      manager_->Computed(s, cut - s.num_computed);
      manager_->prefixes().checkpoints().CheckIntegrity();
      manager_->pool().CheckIntegrity();
    }
  }
  int Attach(Sequence& s) { return manager_->prefixes().Attach(s, s.num_tokens()); }
  size_t NumKept() const { return manager_->prefixes().checkpoints().all().size(); }

  std::unique_ptr<BlockManager> manager_ = std::make_unique<BlockManager>(StateOptions(40));
  StepPlan plan_;
};

TEST_F(SequenceStatesTest, State_IsAllocatedByTheFirstStep_AndLaterStepsWriteInPlace) {
  Sequence s = Prompt(PlacedTokens(3));
  const GrowTarget target[] = {{&s, 3}};
  EXPECT_EQ(manager_->BlocksToGrow(target), 1 + 2);
  Compute(s, 3);
  EXPECT_EQ(s.state.size(), 2u);
  EXPECT_TRUE(plan_.copies.empty());
  const Blocks state = s.state;
  s.tokens.push_back(9);
  const GrowTarget next[] = {{&s, 4}};
  EXPECT_EQ(manager_->BlocksToGrow(next), 0);
  Compute(s, 4);
  EXPECT_EQ(s.state, state);
  EXPECT_TRUE(plan_.copies.empty());
  manager_->Free(s);
  EXPECT_EQ(manager_->num_free(), manager_->num_usable());
}

TEST_F(SequenceStatesTest, Fork_SharesTheState_ThenWritersCopyAndTheLastOwnerWritesInPlace) {
  Sequence a = Prompt(PlacedTokens(3)), b = Prompt(PlacedTokens(3));
  Compute(a, 2);
  manager_->Fork(a, b);
  const Blocks shared = a.state;
  EXPECT_EQ(b.state, shared);
  const GrowTarget both[] = {{&a, 3}, {&b, 3}};
  EXPECT_EQ(manager_->BlocksToGrow(both), 1 + 2) << "a block of the table and a state";
  a.slot = 5;
  Grow(a, 3);
  EXPECT_EQ(plan_.states, (std::vector<StateTable>{{5, a.state}}));
  ASSERT_EQ(plan_.copies.size(), 3u);
  EXPECT_EQ(plan_.copies[1], (BlockCopyPair{shared[0], a.state[0]}));
  EXPECT_EQ(plan_.copies[2], (BlockCopyPair{shared[1], a.state[1]}));
  Grow(b, 3);
  EXPECT_EQ(b.state, shared);
  EXPECT_TRUE(plan_.copies.empty());
}

TEST_F(SequenceStatesTest, State_IsKeptAtThePromptsLastFullBlock_AndTheSamePromptStartsThere) {
  Sequence a = Prompt(PlacedTokens(9));
  EXPECT_EQ(manager_->states().CutAt(a, 0, 9), 8);
  Compute(a, 8);
  const Blocks kept = a.state;
  EXPECT_EQ(NumKept(), 0u);
  Grow(a, 9);
  EXPECT_EQ(plan_.copies, (Copies{{kept[0], a.state[0]}, {kept[1], a.state[1]}}));
  EXPECT_EQ(NumKept(), 1u);
  EXPECT_EQ(manager_->pool().ref_count(kept[0]), 0) << "cached";

  Sequence same = Prompt(PlacedTokens(9));
  EXPECT_EQ(Attach(same), 8);
  EXPECT_EQ(same.state, kept);
  EXPECT_EQ(manager_->pool().ref_count(kept[0]), 1);
  const GrowTarget target[] = {{&same, 9}};
  EXPECT_EQ(manager_->BlocksToGrow(target), 1) << "in place, should there be no room";
  Grow(same, 9);
  EXPECT_EQ(plan_.copies, (Copies{{kept[0], same.state[0]}, {kept[1], same.state[1]}}));
  EXPECT_EQ(NumKept(), 1u);

  Sequence longer = Prompt(PlacedTokens(7));
  EXPECT_EQ(Attach(longer), 0) << "its keys and values are cached, but no state";
  EXPECT_EQ(longer.shared_prefix, 4);
  EXPECT_TRUE(longer.blocks.empty());
}

TEST_F(SequenceStatesTest, State_IsNotKept_WhenOtherRequestsNeedItsBlocks) {
  Sequence a = Prompt(PlacedTokens(9)), b = Prompt(PlacedTokens(9));
  Compute(a, 8);
  const Blocks state = a.state;
  Grow(a, 9, manager_->num_free() - 1 - 1);  // one block goes to the block table
  EXPECT_EQ(a.state, state);
  EXPECT_EQ(NumKept(), 0u);
  manager_->Computed(a, 1);
  manager_->Free(a);

  Compute(b, 9);
  EXPECT_EQ(NumKept(), 1u);
  Sequence c = Prompt(PlacedTokens(9));
  EXPECT_EQ(Attach(c), 8);
  Grow(c, 9, manager_->num_free());
  EXPECT_TRUE(plan_.copies.empty()) << "it writes where the state was kept";
  EXPECT_EQ(NumKept(), 0u);
  Sequence d = Prompt(PlacedTokens(9));
  EXPECT_EQ(Attach(d), 0);
}

TEST_F(SequenceStatesTest, SecondRequest_KeepsTheStateOfACommonPrefix_AndTheThirdStartsThere) {
  const auto prompt = [&](TokenId last) {
    std::vector<TokenId> tokens = PlacedTokens(8);
    tokens.insert(tokens.end(), 5, last);
    return Prompt(tokens);
  };
  Sequence first = prompt(50), second = prompt(51), third = prompt(52);
  Compute(first, 13);
  EXPECT_EQ(Attach(second), 0);
  EXPECT_EQ(second.shared_prefix, 8);
  EXPECT_EQ(manager_->states().CutAt(second, 0, 13), 8);
  EXPECT_EQ(manager_->states().CutAt(second, 8, 13), 12);
  Compute(second, 13);
  EXPECT_EQ(NumKept(), 3u) << "of both prompts, and of what they have in common";
  EXPECT_EQ(Attach(third), 8);
}

TEST_F(SequenceStatesTest, State_IsNotKept_WhenItSavesFewTokens) {
  BlockManagerOptions options = StateOptions(40);
  options.state_spacing = 8;
  manager_ = std::make_unique<BlockManager>(options);
  Sequence brief = Prompt(PlacedTokens(8)), a = Prompt(PlacedTokens(9)), b = Prompt(PlacedTokens(14));
  EXPECT_EQ(manager_->states().CutAt(brief, 0, 8), 8);
  Compute(brief, 8);
  EXPECT_EQ(NumKept(), 0u);
  Compute(a, 9);
  EXPECT_EQ(NumKept(), 1u);
  EXPECT_EQ(Attach(b), 8);
  EXPECT_EQ(manager_->states().CutAt(b, 8, 14), 14) << "12 are but 4 more";
}

// A state that is kept as a checkpoint must be usable as a whole or not at all.
TEST_F(SequenceStatesTest, KeptState_IsForgotten_WhenABlockOfTheStateOrOfItsPrefixIsEvicted) {
  for (const bool table_goes_first : {false, true}) {
    manager_ = std::make_unique<BlockManager>(StateOptions(8));
    Sequence a = Prompt(PlacedTokens(5));
    Compute(a, 4);
    manager_->states().KeepLast(a);
    EXPECT_EQ(NumKept(), 1u);
    if (table_goes_first) {  // the state has an owner, but the blocks before it have none
      Sequence holder = Prompt(PlacedTokens(5));
      EXPECT_EQ(Attach(holder), 4);
      manager_->Free(a);
      Blocks table = std::exchange(holder.blocks, {});
      manager_->Free(holder);
      Sequence once_more = Prompt(PlacedTokens(5));
      EXPECT_EQ(Attach(once_more), 4);
      once_more.blocks.clear();
      for (const BlockId block : table) {
        manager_->prefixes().Forget(block);
        EXPECT_FALSE(manager_->pool().keeps(once_more.state[0]));
      }
      EXPECT_EQ(NumKept(), 0u);
      continue;
    }
    manager_->Free(a);
    EXPECT_EQ(manager_->pool().num_cached(), 3);
    Sequence other = Prompt(PlacedTokens(12, 100));
    Grow(other, 12);  // three blocks and a state: one cached block is evicted
    EXPECT_EQ(NumKept(), 0u);
    EXPECT_EQ(Attach(a), 0);
    manager_->pool().CheckIntegrity();
  }
}

TEST_F(SequenceStatesTest, State_OfAnOutstandingStep_IsKeptOnceItsResultIsCommitted) {
  Sequence a = Prompt(PlacedTokens(9));
  Grow(a, 8);
  const Blocks state = a.state;
  a.num_in_flight = 8;
  Grow(a, 9);  // this step is planned ahead
  EXPECT_EQ(plan_.copies, (Copies{{state[0], a.state[0]}, {state[1], a.state[1]}}));
  EXPECT_EQ(a.coming.at(0).blocks, state);
  EXPECT_EQ(NumKept(), 0u);
  manager_->Computed(a, 8);
  a.num_in_flight = 1;
  EXPECT_EQ(NumKept(), 1u);
  Sequence same = Prompt(PlacedTokens(9));
  EXPECT_EQ(Attach(same), 8);
  EXPECT_EQ(same.state, state);
}

TEST_F(SequenceStatesTest, LatestState_IsKept_WhileTokensAreGenerated) {
  manager_ = std::make_unique<BlockManager>(StateOptions(100));
  Sequence a = Prompt(PlacedTokens(3));
  Compute(a, 3);
  const int stride = 4 * SequenceStates::kCheckpointBlocks;
  for (int count = 4; count <= 2 * stride + 1; ++count) {
    a.tokens.push_back(7);
    Compute(a, count);
    EXPECT_EQ(NumKept(), count > stride ? 1u : 0u) << count;
  }
  Sequence again = Prompt(a.tokens);
  EXPECT_EQ(Attach(again), 2 * stride);
  EXPECT_EQ(manager_->states().CutAt(a, 0, 2 * stride + 1), 2 * stride) << "when it is computed again";
}

TEST_F(SequenceStatesTest, Drafts_EndWhereAStateIsKept_AndTheirBlocksCauseNoSecondCopy) {
  manager_ = std::make_unique<BlockManager>(StateOptions(100));
  const int stride = 4 * SequenceStates::kCheckpointBlocks;
  Sequence a = Prompt(PlacedTokens(3));
  Compute(a, 3);
  EXPECT_EQ(manager_->states().DraftsUpToCheckpoint(a), stride - 4) << "the step computes position 3, too";
  for (int count = 4; count <= stride - 2; ++count) {
    a.tokens.push_back(7);
    Compute(a, count);
  }
  ASSERT_EQ(manager_->states().DraftsUpToCheckpoint(a), 1);
  a.tokens.insert(a.tokens.end(), 2, 7);
  Compute(a, stride);  // a decode and a right draft
  EXPECT_EQ(NumKept(), 0u) << "the next step keeps the state";
  EXPECT_EQ(manager_->states().DraftsUpToCheckpoint(a), stride - 1);
  a.tokens.push_back(7);
  plan_.Clear();
  manager_->Grow(a, stride + 1, plan_);
  EXPECT_EQ(NumKept(), 1u);
  const size_t copies = plan_.copies.size();
  const std::vector<BlockId> state = a.state;
  manager_->Extend(a, stride + 6, plan_);
  EXPECT_EQ(plan_.copies.size(), copies) << "the step's state is writable already";
  EXPECT_EQ(a.state, state);
  EXPECT_EQ(std::ssize(a.blocks), manager_->BlocksFor(stride + 6));
  manager_->states().Settle();

  BlockManagerOptions uncached = StateOptions(20);
  uncached.prefix_caching = false;
  manager_ = std::make_unique<BlockManager>(uncached);
  Sequence b = Prompt(PlacedTokens(3));
  EXPECT_GE(manager_->states().DraftsUpToCheckpoint(b), kMostDrafts) << "no state is kept";
}

/// An answer ends inside a run of accepted drafts. The sequence's state then includes tokens after the answer's end.
TEST_F(SequenceStatesTest, LastState_IsKept_OnlyWhenItCoversExactlyTheSequencesTokens) {
  for (const int end : {16, 15, 13}) {
    manager_ = std::make_unique<BlockManager>(StateOptions(100));
    Sequence a = Prompt(PlacedTokens(9));
    a.begun = 8;  // too near the prompt's end for a checkpoint there
    a.tokens = PlacedTokens(17);
    Compute(a, 16);
    a.tokens.resize(static_cast<size_t>(end));
    const size_t before = NumKept();
    manager_->states().KeepLast(a);
    EXPECT_EQ(NumKept() - before, end == 16 ? 1u : 0u) << end;
    manager_->Free(a);
  }
}

TEST_F(SequenceStatesTest, Swap_MovesTheState_AndKeepsItShared) {
  std::vector<Sequence> group = {Prompt(PlacedTokens(3)), Prompt(PlacedTokens(3))};
  Compute(group[0], 2);
  manager_->Fork(group[0], group[1]);
  EXPECT_EQ(DistinctBlocks(group), 1 + 2);
  plan_.Clear();
  manager_->swap().Out(group, plan_);
  EXPECT_EQ(plan_.swap_outs.size(), 3u);
  EXPECT_EQ(group[0].host_state, group[1].host_state);
  EXPECT_EQ(manager_->num_free(), manager_->num_usable());
  manager_->swap().In(group, plan_);
  EXPECT_EQ(plan_.swap_ins.size(), 3u);
  EXPECT_EQ(group[0].state, group[1].state);
  EXPECT_EQ(manager_->pool().ref_count(group[0].state[0]), 2);
  EXPECT_EQ(manager_->host_pool().num_held(), 0);
}

TEST_F(SequenceStatesTest, Find_ReturnsThePrefixWithItsState_OnlyWhereAStateIsKept) {
  Sequence a = Prompt(PlacedTokens(9));
  Compute(a, 9);
  const Blocks found = manager_->prefixes().Find("", PlacedTokens(13));
  EXPECT_EQ(found.size(), 2u + 2u);
  EXPECT_TRUE(manager_->prefixes().checkpoints().Holds(found.back()));
  EXPECT_TRUE(manager_->prefixes().Find("", PlacedTokens(6)).empty()) << "no state is kept there";
}

TEST_F(SequenceStatesTest, Prompt_IsNotCut_WithoutPrefixCaching) {
  BlockManagerOptions options = StateOptions(40);
  options.prefix_caching = false;
  manager_ = std::make_unique<BlockManager>(options);
  Sequence a = Prompt(PlacedTokens(9));
  EXPECT_EQ(manager_->states().CutAt(a, 0, 9), 9);
  Compute(a, 9);
  manager_->states().KeepLast(a);
  EXPECT_EQ(NumKept(), 0u);
}

class EngineStatesTest : public testing::Test {
 protected:
  static EngineOptions MakeOptions() {
    EngineOptions options;
    options.scheduler.max_step_tokens = 64;
    options.scheduler.max_running = 8;
    options.scheduler.lookahead_tokens = 0;
    options.blocks = StateOptions(13);
    options.max_model_len = 1000;
    options.plan_ahead = false;
    return options;
  }
  std::optional<std::string> Submit(RequestId id, int prompt, int max_tokens, int n = 1) {
    const auto first = static_cast<TokenId>(100 * id);
    return engine_.Submit(test::MakeRequest(id, PlacedTokens(prompt, first), max_tokens, sinks_[id], n));
  }
  void Run() {
    while (const StepPlan* plan = engine_.NextPlan(0)) {
      std::vector<SampledToken> drawn;
      for (const StepMember& member : engine_.scheduler().outstanding().at(0).members) {
        if (member.draws) drawn.push_back({member.slot, 9, 0, {}});
      }
      EXPECT_FALSE(plan->empty());
      engine_.CommitStep(drawn);
      engine_.scheduler().CheckIntegrity();
    }
  }

  std::map<RequestId, test::CollectingSink> sinks_;
  Engine engine_{MakeOptions()};
};

/// Records which states are kept as checkpoints.
struct KeptStates : CacheListener {
  void OnFindable(const Sequence& /*sequence*/, int /*index*/) override {}
  void OnStateKept(const Sequence& sequence, int num_tokens, CheckpointId id) override {
    ends.push_back(num_tokens);
    last = id;
    hash = sequence.contents.hashes[static_cast<size_t>(num_tokens / 4 - 1)];
  }
  std::vector<int> ends;
  CheckpointId last = 0;
  BlockHash hash;
};

TEST_F(EngineStatesTest, StoredStateAndBlocks_AreFound_OnceBothHaveComeBack) {
  engine_.StartEpoch(1, {40, 12, 2});
  KeptStates kept;
  engine_.AddCacheListener(&kept);
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const std::vector<TokenId> tokens = PlacedTokens(8, 100);
  EXPECT_FALSE(engine_.ReserveForStored(1, "", 0, tokens, 2)) << "the state comes after the blocks";
  ASSERT_TRUE(engine_.ReserveForStored(1, "", 0, tokens, 0));
  engine_.CacheStored(1, "", 0, tokens, 0);
  EXPECT_EQ(prefixes.FindBlocks("", tokens).size(), 2u);
  EXPECT_EQ(prefixes.UsableBlocks(prefixes.FindBlocks("", tokens)), 0);
  ASSERT_TRUE(engine_.ReserveForStored(2, "", 0, tokens, 2));
  const std::vector<BlockId> held = engine_.blocks().device_holdings().Find(2)->blocks;
  ASSERT_EQ(held.size(), 2u + 2u);
  engine_.CacheStored(2, "", 0, tokens, 2);
  EXPECT_EQ(kept.ends, std::vector<int>{8});
  EXPECT_EQ(prefixes.UsableBlocks(prefixes.FindBlocks("", tokens)), 2);
  EXPECT_EQ(prefixes.Find("", tokens), held);
  EXPECT_EQ(engine_.blocks().num_free(), engine_.blocks().num_usable());
  EXPECT_FALSE(engine_.ReserveForStored(3, "", 0, tokens, 2)) << "a state is kept there";
  EXPECT_FALSE(Submit(1, 9, 2));
  Run();
  EXPECT_EQ(engine_.stats().cached_tokens, 8);
  engine_.RemoveCacheListener(&kept);
}

TEST_F(EngineStatesTest, StoredState_IsDropped_WhenItsBlocksAreForgottenMeanwhile) {
  engine_.StartEpoch(1, {40, 12, 2});
  const std::vector<TokenId> tokens = PlacedTokens(8, 100);
  ASSERT_TRUE(engine_.ReserveForStored(1, "", 0, tokens, 0));
  engine_.CacheStored(1, "", 0, tokens, 0);
  ASSERT_TRUE(engine_.ReserveForStored(2, "", 0, tokens, 2));
  engine_.FlushCache();
  engine_.CacheStored(2, "", 0, tokens, 2);
  EXPECT_TRUE(engine_.blocks().prefixes().Find("", tokens).empty());
  EXPECT_TRUE(engine_.blocks().prefixes().checkpoints().all().empty());
  EXPECT_EQ(engine_.blocks().num_free(), engine_.blocks().num_usable());
  engine_.blocks().pool().CheckIntegrity();
}

TEST_F(EngineStatesTest, BlocksOfAStoredState_AreNotReserved_WhenTooFewAreFree) {
  engine_.StartEpoch(1, {13, 12, 2});
  const std::vector<TokenId> tokens = PlacedTokens(44, 100);
  ASSERT_TRUE(engine_.ReserveForStored(1, "", 0, tokens, 0));
  engine_.CacheStored(1, "", 0, tokens, 0);
  EXPECT_FALSE(engine_.ReserveForStored(2, "", 0, tokens, 11)) << "1 of 12 blocks is free beside the 11";
  const std::vector<TokenId> shorter(tokens.begin(), tokens.begin() + 40);
  EXPECT_TRUE(engine_.ReserveForStored(2, "", 0, shorter, 10));
}

TEST_F(EngineStatesTest, Request_IsRefused_WhenItFitsOnlyWithoutItsStates) {
  engine_.StartEpoch(1, {13, 12, 2});
  EXPECT_FALSE(Submit(1, 37, 4)) << "10 blocks and 2";
  const auto refusal = Submit(2, 38, 4);
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->find("and 2 blocks of state each do not fit the KV cache of 12 blocks"), std::string::npos);
  EXPECT_TRUE(Submit(3, 4, 4, 4)) << "4 x (2 + 2)";
  EXPECT_EQ(engine_.BlocksNeeded(2), 1 + 12);
  EXPECT_EQ(engine_.BlocksNeeded(5), 1 + 15);
}

// At their full length both requests need the whole pool. States that are kept as checkpoints must not cause a
// preemption.
TEST_F(EngineStatesTest, Requests_AreNotPreempted_ForTheBlocksOfKeptStates) {
  engine_.StartEpoch(1, {13, 12, 2});
  EXPECT_FALSE(Submit(1, 9, 8));
  EXPECT_FALSE(Submit(2, 9, 8));
  Run();
  EXPECT_EQ(engine_.scheduler().num_preemptions(), 0);
  EXPECT_EQ(sinks_[1].choices[0].tokens.size(), 8u);
  EXPECT_EQ(sinks_[2].choices[0].tokens.size(), 8u);
  EXPECT_GT(engine_.blocks().prefixes().checkpoints().num_kept(), 0u);
}

TEST_F(EngineStatesTest, NumberOfBlocksOfAState_MayChange_WithANewEpoch) {
  engine_.StartEpoch(1, {13, 12, 2});
  EXPECT_FALSE(Submit(1, 9, 8));
  Run();
  engine_.StartEpoch(2, {20, 12, 3});
  EXPECT_EQ(engine_.blocks().states().num_blocks(), 3);
  EXPECT_FALSE(Submit(2, 9, 8));
  Run();
  EXPECT_EQ(sinks_[2].choices[0].tokens.size(), 8u);
  engine_.StartEpoch(3, {20, 12, 0});
  EXPECT_FALSE(Submit(3, 9, 8));
  Run();
  EXPECT_EQ(sinks_[3].choices[0].tokens.size(), 8u);
}

}  // namespace
}  // namespace quire
