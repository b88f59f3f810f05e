#include "coordinator/core/blocks/block_manager.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace quire {
namespace {

using Blocks = std::vector<BlockId>;

Sequence SequenceOf(int tokens) {
  Sequence s;
  s.tokens.assign(static_cast<size_t>(tokens), 7);
  s.num_prompt_tokens = tokens;
  return s;
}

TEST(BlockPoolTest, Allocate_ReturnsRisingIds_AndReusesTheLastFreedBlock) {
  BlockPool pool(5);
  EXPECT_EQ(pool.num_usable(), 4);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), 2);
  EXPECT_EQ(pool.Allocate(), 3);
  pool.Release(1);
  pool.Release(3);
  EXPECT_EQ(pool.Allocate(), 3);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), 4);
  EXPECT_EQ(pool.num_free(), 0);
  pool.CheckIntegrity();
}

TEST(BlockPoolTest, SharedBlock_IsFreed_AfterItsLastOwner) {
  BlockPool pool(3);
  const BlockId b = pool.Allocate();
  pool.AddReference(b);
  pool.Release(b);
  EXPECT_EQ(pool.num_free(), 1);
  pool.Release(b);
  EXPECT_EQ(pool.num_free(), 2);
  pool.CheckIntegrity();
}

TEST(BlockPoolDeathTest, Pool_Aborts_WhenABlockIsMisused) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.Release(1), "not held");
  EXPECT_DEATH(pool.Release(kNullBlock), "not held");
  const BlockId b = pool.Allocate();
  EXPECT_DEATH(pool.Allocate(), "no free block");
  pool.Release(b);
  EXPECT_DEATH(pool.AddReference(b), "is empty");
}

TEST(BlockPoolTest, Allocate_TakesEmptyBlocksFirst_ThenTheLeastRecentlyReleasedCachedBlock) {
  std::vector<BlockId> evicted;
  BlockPool pool(5, [&](BlockId block) { evicted.push_back(block); });
  for (const BlockId block : {1, 2, 3}) EXPECT_EQ(pool.Allocate(), block);
  for (const BlockId block : {1, 2, 3}) pool.KeepContent(block);
  for (const BlockId block : {2, 1, 3}) pool.Release(block);
  EXPECT_EQ(pool.num_cached(), 3);
  EXPECT_EQ(pool.num_free(), 4);
  pool.AddReference(1);  // a cache hit references block 1 again
  pool.Release(1);       // now block 1 is the most recently used block
  EXPECT_EQ(pool.Allocate(), 4) << "the empty one first";
  EXPECT_EQ(pool.Allocate(), 2);
  EXPECT_EQ(pool.Allocate(), 3);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(evicted, (Blocks{2, 3, 1}));
  pool.Release(2);
  EXPECT_EQ(pool.num_cached(), 0) << "evicted content is not kept";
  pool.CheckIntegrity();
}

BlockManagerOptions Options(int num_blocks, int block_size = 4) {
  BlockManagerOptions options;
  options.num_blocks = num_blocks;
  options.block_size = block_size;
  options.num_host_blocks = 8;
  options.watermark = 0;
  return options;
}

/// A block manager without prefix cache, and the step plan that receives its changes.
class BlockManagerTest : public testing::Test {
 protected:
  static BlockManagerOptions WithoutCache() {
    BlockManagerOptions options = Options(12);
    options.prefix_caching = false;
    return options;
  }
  void Grow(Sequence& s, int num_tokens) {
    plan_.Clear();
    manager_.Grow(s, num_tokens, plan_);
  }
  void GrowAndCompute(Sequence& s, int num_tokens) {
    Grow(s, num_tokens);
    manager_.Computed(s, num_tokens - s.num_computed);
  }

  BlockManager manager_{WithoutCache()};
  StepPlan plan_;
};

TEST_F(BlockManagerTest, Grow_AddsBlocksAndPlansTableEdits_WhenTheSequenceHasASlot) {
  Sequence s = SequenceOf(10);
  EXPECT_EQ(manager_.BlocksToGrow({{GrowTarget{&s, 4}}}), 1);
  GrowAndCompute(s, 4);
  EXPECT_TRUE(plan_.tables.empty());
  EXPECT_EQ(s.blocks, (Blocks{1}));
  EXPECT_EQ(manager_.BlocksToGrow({{GrowTarget{&s, 10}}}), 2);
  s.slot = 3;
  GrowAndCompute(s, 10);
  EXPECT_EQ(plan_.tables, (std::vector<TableEdit>{{3, 1, 2}, {3, 2, 3}}));
  EXPECT_EQ(s.blocks, (Blocks{1, 2, 3}));
  EXPECT_EQ(manager_.fill().tokens(1), 4);
  EXPECT_EQ(manager_.fill().tokens(3), 2);
  Grow(s, 12);
  EXPECT_TRUE(plan_.tables.empty());
  manager_.Free(s);
  EXPECT_EQ(manager_.num_free(), 11);
  EXPECT_EQ(s.num_computed, 0);
}

TEST_F(BlockManagerTest, Fork_SharesBlocks_ThenWritersCopyAndTheLastOwnerWritesInPlace) {
  Sequence a = SequenceOf(7), b = SequenceOf(7);
  GrowAndCompute(a, 6);
  manager_.Fork(a, b);
  EXPECT_EQ(b.blocks, (Blocks{1, 2}));
  EXPECT_EQ(b.num_computed, 6);
  EXPECT_EQ(manager_.pool().ref_count(1), 2);
  const GrowTarget both[] = {{&a, 7}, {&b, 7}};
  EXPECT_EQ(manager_.BlocksToGrow(both), 1);  // one sequence copies the block; the other then owns it alone

  Grow(a, 7);
  EXPECT_EQ(a.blocks, (Blocks{1, 3}));
  EXPECT_EQ(plan_.copies, (std::vector<BlockCopyPair>{{2, 3}}));
  Grow(b, 7);
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(b.blocks, (Blocks{1, 2}));

  manager_.Free(a);
  EXPECT_EQ(manager_.num_free(), 9);
  manager_.Free(b);
  EXPECT_EQ(manager_.num_free(), 11);
  manager_.pool().CheckIntegrity();
}

TEST_F(BlockManagerTest, Fork_CopiesNothing_AtABlockBoundary) {
  Sequence a = SequenceOf(9), b = SequenceOf(9);
  GrowAndCompute(a, 8);
  manager_.Fork(a, b);
  Grow(a, 9);
  EXPECT_TRUE(plan_.copies.empty());
  Grow(b, 9);
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(a.blocks, (Blocks{1, 2, 3}));
  EXPECT_EQ(b.blocks, (Blocks{1, 2, 4}));
}

TEST_F(BlockManagerTest, Swap_KeepsSharedBlocksShared) {
  std::vector<Sequence> group = {SequenceOf(7), SequenceOf(7)};
  GrowAndCompute(group[0], 6);
  manager_.Fork(group[0], group[1]);
  GrowAndCompute(group[1], 7);  // block 1 is shared, blocks 2 and 3 have one owner each
  EXPECT_EQ(DistinctBlocks(group), 3);
  plan_.Clear();
  manager_.swap().Out(group, plan_);
  EXPECT_EQ(plan_.swap_outs, (std::vector<BlockCopyPair>{{1, 1}, {2, 2}, {3, 3}}));
  EXPECT_EQ(manager_.num_free(), 11);
  EXPECT_EQ(manager_.host_pool().num_held(), 3);
  EXPECT_EQ(group[0].host_blocks, (Blocks{1, 2}));
  EXPECT_EQ(group[1].host_blocks, (Blocks{1, 3}));
  EXPECT_EQ(group[1].num_computed, 7) << "nothing is computed again";

  manager_.swap().In(group, plan_);
  EXPECT_EQ(plan_.swap_ins.size(), 3u);
  EXPECT_EQ(group[0].blocks[0], group[1].blocks[0]);
  EXPECT_EQ(manager_.pool().ref_count(group[0].blocks[0]), 2);
  EXPECT_EQ(manager_.fill().tokens(group[1].blocks[1]), 3);
  EXPECT_EQ(manager_.host_pool().num_held(), 0);
  for (Sequence& s : group) manager_.Free(s);
  EXPECT_EQ(manager_.num_free(), 11);
}

TEST(BlockManagerWatermarkTest, Watermark_IsAShareOfTheUsableBlocks) {
  BlockManagerOptions options = Options(201);
  options.watermark = 0.01;
  EXPECT_EQ(BlockManager(options).watermark_blocks(), 2);
  options.num_blocks = 11;
  EXPECT_EQ(BlockManager(options).watermark_blocks(), 0);
}

TEST(SlidingWindowTest, LeaveWindow_FreesBlocks_WhenNoLaterQueryReadsThem) {
  BlockManagerOptions options = Options(12);
  options.sliding_window = 6;
  BlockManager manager(options);
  StepPlan plan;
  Sequence s = SequenceOf(20);
  manager.Grow(s, 9, plan);
  manager.Computed(s, 8);
  manager.LeaveWindow(s);  // the query at position 8 reads positions 3 to 8
  EXPECT_EQ(s.blocks, (Blocks{1, 2, 3}));
  manager.Computed(s, 1);
  manager.LeaveWindow(s);  // the query at position 9 reads positions 4 to 9
  EXPECT_EQ(s.blocks, (Blocks{kNullBlock, 2, 3}));
  EXPECT_EQ(s.num_held_blocks(), 2);
  EXPECT_EQ(manager.num_free(), 9);
  std::vector<Sequence> group = {s};
  manager.swap().Out(group, plan);
  EXPECT_EQ(group[0].host_blocks, (Blocks{kNullBlock, 1, 2}));
  manager.swap().In(group, plan);
  EXPECT_EQ(group[0].blocks.front(), kNullBlock);
  manager.Free(group[0]);
  EXPECT_EQ(manager.num_free(), 11);
}

// --- prefix cache ---

/// A block manager with prefix cache. Prompts are computed, and their blocks stay cached when they are freed.
class PrefixCacheTest : public testing::Test {
 protected:
  Sequence Prompt(std::vector<TokenId> tokens, const std::string& salt = "") {
    Sequence s;
    s.num_prompt_tokens = static_cast<int>(tokens.size());
    s.tokens = std::move(tokens);
    s.contents.root = manager_->prefixes().Root(salt);
    s.contents.last = PrefixCache::RootContent(s.contents.root);
    return s;
  }
  void Compute(Sequence& s) {
    manager_->Grow(s, s.num_tokens(), plan_);
    manager_->Computed(s, s.num_tokens() - s.num_computed);
  }
  const PrefixPin* Pin(const std::string& salt, const std::vector<TokenId>& tokens, double expires_seconds) {
    return manager_->pins().Pin(manager_->prefixes().Find(salt, tokens), expires_seconds);
  }
  int Attach(Sequence& s) { return manager_->prefixes().Attach(s, s.num_tokens()); }

  std::unique_ptr<BlockManager> manager_ = std::make_unique<BlockManager>(Options(12));
  StepPlan plan_;
};

TEST_F(PrefixCacheTest, Attach_FindsFullBlocks_ButLeavesTheLastTokenToCompute) {
  Sequence a = Prompt({1, 2, 3, 4, 5, 6, 7, 8, 9});
  Compute(a);
  Sequence same = Prompt({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(Attach(same), 8);
  EXPECT_EQ(same.blocks, (Blocks{1, 2}));
  EXPECT_EQ(manager_->pool().ref_count(1), 2);
  Sequence exact = Prompt({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(Attach(exact), 4) << "the last token must be computed, so the last block is not taken";
  Sequence branch = Prompt({1, 2, 3, 4, 5, 6, 0, 8, 9});
  EXPECT_EQ(Attach(branch), 4);
  manager_->Free(a);
  EXPECT_EQ(manager_->pool().num_cached(), 0) << "others still hold them";
  for (Sequence* s : {&same, &exact, &branch}) manager_->Free(*s);
  EXPECT_EQ(manager_->pool().num_cached(), 2);
  EXPECT_EQ(manager_->num_free(), 11);
}

TEST_F(PrefixCacheTest, Attach_FindsOnlyBlocksOfTheSameSalt) {
  Sequence a = Prompt({1, 2, 3, 4, 5}, "alice"), b = Prompt({1, 2, 3, 4, 5}, "bob"),
           c = Prompt({1, 2, 3, 4, 5}, "alice");
  Compute(a);
  EXPECT_EQ(Attach(b), 0);
  EXPECT_EQ(Attach(c), 4);
}

TEST_F(PrefixCacheTest, Attach_FindsOnlyBlocksOfTheSameAdapter) {
  const auto with = [this](const std::string& salt, int adapter) {
    Sequence s = Prompt({1, 2, 3, 4, 5});
    s.contents.root = manager_->prefixes().Root(salt, adapter);
    s.contents.last = PrefixCache::RootContent(s.contents.root);
    return s;
  };
  Sequence a = with("", 1);
  Compute(a);
  Sequence base = with("", 0), other = with("", 2), salted = with("1", 1), same = with("", 1), digits = with("1:", 0);
  for (Sequence* s : {&base, &other, &salted, &digits}) EXPECT_EQ(Attach(*s), 0);
  EXPECT_EQ(Attach(same), 4);
  EXPECT_EQ(manager_->prefixes().Find("", a.tokens).size(), 0u);
  EXPECT_EQ(manager_->prefixes().Find("", a.tokens, 1).size(), 1u);
  for (Sequence* s : {&a, &base, &other, &salted, &same, &digits}) manager_->Free(*s);
}

TEST_F(PrefixCacheTest, Eviction_TakesTheLeaves_OfTheOldestPrefixFirst) {
  Sequence old = Prompt({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}), young = Prompt({7, 7, 7, 7, 8, 8, 8, 8});
  Compute(old);    // blocks 1, 2, 3
  Compute(young);  // blocks 4, 5
  manager_->Free(old);
  manager_->Free(young);
  Sequence big = Prompt(std::vector<TokenId>(32, 0));
  manager_->Grow(big, 32, plan_);  // 8 blocks: 6 empty, then two evictions
  Sequence again = Prompt({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(Attach(again), 4) << "its last two blocks are gone, the first is not";
  Sequence young_again = Prompt({7, 7, 7, 7, 8, 8, 8, 8, 1});
  EXPECT_EQ(Attach(young_again), 8);
}

TEST_F(PrefixCacheTest, Attach_NeverReturnsOtherContent_WhenHashesCollide) {
  BlockManagerOptions options = Options(64);
  options.hash_bits = 1;
  manager_ = std::make_unique<BlockManager>(options);
  test::Random random(5);
  int hits = 0;
  std::vector<std::vector<TokenId>> written(64);  // the token prefix whose last block was computed into each block
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> tokens;
    for (int64_t i = random.Between(1, 20); i > 0; --i) tokens.push_back(static_cast<TokenId>(random.Below(2)));
    Sequence s = Prompt(tokens);
    const int attached = Attach(s);
    hits += attached;
    for (int i = 0; i < attached / 4; ++i) {
      const std::vector<TokenId> prefix(tokens.begin(), tokens.begin() + (i + 1) * 4);
      ASSERT_EQ(written[static_cast<size_t>(s.blocks[static_cast<size_t>(i)])], prefix);
    }
    Compute(s);
    for (size_t i = static_cast<size_t>(attached / 4); i < s.blocks.size(); ++i) {
      const auto end = std::min(tokens.size(), (i + 1) * 4);
      written[static_cast<size_t>(s.blocks[i])] = {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(end)};
    }
    manager_->Free(s);
    manager_->prefixes().cache().CheckIntegrity();
    manager_->pool().CheckIntegrity();
  }
  EXPECT_GT(hits, 0);
}

TEST_F(PrefixCacheTest, Pins_KeepBlocksUntilTheyExpire_AndHoldAtMostHalfThePool) {
  Sequence a = Prompt({1, 2, 3, 4, 5, 6, 7, 8, 9});
  Compute(a);
  manager_->Free(a);
  const auto* pin = Pin("", a.tokens, 100);
  ASSERT_NE(pin, nullptr);
  EXPECT_EQ(pin->blocks, (Blocks{1, 2}));
  EXPECT_EQ(manager_->num_free(), 9);
  EXPECT_NE(Pin("", a.tokens, 50), nullptr);
  EXPECT_EQ(Pin("", a.tokens, 50), nullptr) << "6 of 11 blocks";
  EXPECT_EQ(Pin("other", a.tokens, 50), nullptr) << "nothing cached for that salt";
  manager_->pins().Expire(60);
  EXPECT_EQ(manager_->pins().all().size(), 1u);
  manager_->prefixes().Flush();
  EXPECT_EQ(manager_->num_free(), 9) << "flushing forgets content, it does not take blocks away from their holders";
  Sequence again = Prompt({1, 2, 3, 4, 5});
  EXPECT_EQ(Attach(again), 0);
  EXPECT_TRUE(manager_->pins().Break());
  EXPECT_FALSE(manager_->pins().Break());
  EXPECT_EQ(manager_->num_free(), 11);
  manager_->pool().CheckIntegrity();
}

}  // namespace
}  // namespace quire
