#include "coordinator/core/block_manager.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Blocks = std::vector<BlockId>;

Sequence SequenceOf(int tokens) {
  Sequence s;
  s.tokens.assign(static_cast<size_t>(tokens), 7);
  s.num_prompt_tokens = tokens;
  return s;
}

TEST(BlockPoolTest, HandsOutRisingIdsAndReusesTheLastFreed) {
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

TEST(BlockPoolTest, ASharedBlockIsFreeAfterTheLastOwner) {
  BlockPool pool(3);
  const BlockId b = pool.Allocate();
  pool.AddReference(b);
  pool.Release(b);
  EXPECT_EQ(pool.num_free(), 1);
  pool.Release(b);
  EXPECT_EQ(pool.num_free(), 2);
  pool.CheckIntegrity();
}

TEST(BlockPoolDeathTest, MisuseAborts) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.Release(1), "not held");
  EXPECT_DEATH(pool.Release(kNullBlock), "not held");
  const BlockId b = pool.Allocate();
  EXPECT_DEATH(pool.Allocate(), "no free block");
  pool.Release(b);
  EXPECT_DEATH(pool.AddReference(b), "is free");
}

TEST(BlockManagerTest, GrowsBlockByBlock) {
  BlockManager manager(12, 4, 0);
  Sequence s = SequenceOf(10);
  EXPECT_EQ(manager.BlocksToGrow({{GrowTarget{&s, 4}}}), 1);
  EXPECT_TRUE(manager.Grow(s, 4).changed);
  EXPECT_EQ(s.blocks, (Blocks{1}));
  s.num_computed = 4;
  EXPECT_EQ(manager.BlocksToGrow({{GrowTarget{&s, 10}}}), 2);
  const TableGrowth growth = manager.Grow(s, 10);
  EXPECT_EQ(growth.first_index, 1);
  EXPECT_EQ(s.blocks, (Blocks{1, 2, 3}));
  s.num_computed = 10;
  EXPECT_FALSE(manager.Grow(s, 12).changed);
  manager.Free(s);
  EXPECT_EQ(manager.num_free(), 11);
  EXPECT_EQ(s.num_computed, 0);
}

TEST(BlockManagerTest, ForkSharesAndTheWriterCopiesAndTheLastOwnerWritesInPlace) {
  BlockManager manager(12, 4, 0);
  Sequence a = SequenceOf(7), b = SequenceOf(7);
  manager.Grow(a, 6);
  a.num_computed = 6;
  manager.Fork(a, b);
  EXPECT_EQ(b.blocks, (Blocks{1, 2}));
  EXPECT_EQ(b.num_computed, 6);
  EXPECT_EQ(manager.pool().ref_count(1), 2);
  const GrowTarget both[] = {{&a, 7}, {&b, 7}};
  EXPECT_EQ(manager.BlocksToGrow(both), 1);  // one copies, the other is then alone

  const TableGrowth first = manager.Grow(a, 7);
  EXPECT_EQ(a.blocks, (Blocks{1, 3}));
  EXPECT_EQ(first.first_index, 1);
  ASSERT_EQ(first.copies.size(), 1u);
  EXPECT_EQ(first.copies[0], (BlockCopyPair{2, 3}));
  EXPECT_FALSE(manager.Grow(b, 7).changed);
  EXPECT_EQ(b.blocks, (Blocks{1, 2}));

  manager.Free(a);
  EXPECT_EQ(manager.num_free(), 9);
  manager.Free(b);
  EXPECT_EQ(manager.num_free(), 11);
  manager.pool().CheckIntegrity();
}

TEST(BlockManagerTest, AForkAtABlockBoundaryCopiesNothing) {
  BlockManager manager(12, 4, 0);
  Sequence a = SequenceOf(9), b = SequenceOf(9);
  manager.Grow(a, 8);
  a.num_computed = 8;
  manager.Fork(a, b);
  EXPECT_TRUE(manager.Grow(a, 9).copies.empty());
  EXPECT_TRUE(manager.Grow(b, 9).copies.empty());
  EXPECT_EQ(a.blocks, (Blocks{1, 2, 3}));
  EXPECT_EQ(b.blocks, (Blocks{1, 2, 4}));
}

TEST(BlockManagerTest, WatermarkIsAShareOfTheUsableBlocks) {
  EXPECT_EQ(BlockManager(201, 16, 0.01).watermark_blocks(), 2);
  EXPECT_EQ(BlockManager(11, 16, 0.01).watermark_blocks(), 0);
}

}  // namespace
}  // namespace quire
