#include "coordinator/cluster/replicas/block_shape.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

BlockShape Shape(std::vector<double> shares) {
  BlockShape shape;
  shape.cut.shares = std::move(shares);
  shape.compute.backend = BackendKind::kCpu;
  shape.compute.dtype = ModelDtype::kFloat32;
  shape.host_blocks = 10;
  shape.on_this_host = true;
  return shape;
}

TEST(BlockShapeTest, Blocks_MayMoveBetweenGroups_WhateverTheirTensorParallelShares) {
  EXPECT_EQ(WhyBlocksStay(Shape({1, 1}), Shape({1, 1})), "");
  EXPECT_EQ(WhyBlocksStay(Shape({1, 1}), Shape({1, 1, 2})), "");
  EXPECT_FALSE(GoesByNetwork(Shape({1}), Shape({1})));
}

TEST(BlockShapeTest, HostMigration_NeedsHostBlocksInBothGroups) {
  BlockShape none = Shape({1});
  none.host_blocks = 0;
  EXPECT_TRUE(CanGo(MigrationWay::kHost, Shape({1}), Shape({1})));
  EXPECT_FALSE(CanGo(MigrationWay::kHost, none, Shape({1})));
  EXPECT_FALSE(CanGo(MigrationWay::kHost, Shape({1}), none));
  EXPECT_EQ(WhyBlocksStay(none, none), "") << "from pool to pool";
}

TEST(BlockShapeTest, DeviceMigration_IsRefused_ForSlidingWindowsAndHybridStates) {
  EXPECT_TRUE(CanGo(MigrationWay::kDevice, Shape({1}), Shape({1, 1})));
  BlockShape windowed = Shape({1}), hybrid = Shape({1});
  windowed.windowed = true;
  hybrid.state_blocks = 2;
  for (BlockShape& shape : {std::ref(windowed), std::ref(hybrid)}) {
    EXPECT_FALSE(CanGo(MigrationWay::kDevice, shape, shape));
    EXPECT_EQ(WhyBlocksStay(shape, shape), "");
    shape.host_blocks = 0;
    EXPECT_NE(WhyBlocksStay(shape, shape), "");
  }
}

TEST(BlockShapeTest, DeviceMigrationBetweenGpus_IsRefused_WhenTrafficBetweenHostsIsEncrypted) {
  BlockShape here = Shape({1}), there = Shape({1});
  here.on_network = there.on_network = true;
  here.keys = there.keys = {"k"};
  here.compute.backend = there.compute.backend = BackendKind::kCuda;
  EXPECT_TRUE(CanGo(MigrationWay::kDevice, here, there)) << "within a host nothing is";
  there.on_this_host = false;
  EXPECT_FALSE(CanGo(MigrationWay::kDevice, here, there));
  EXPECT_FALSE(CanGo(MigrationWay::kDevice, there, here));
  here.compute.backend = there.compute.backend = BackendKind::kCpu;
  EXPECT_TRUE(CanGo(MigrationWay::kDevice, here, there)) << "from host memory blocks go by the sockets that encrypt";
  here.compute.backend = there.compute.backend = BackendKind::kCuda;
  here.keys.clear();
  there.keys.clear();
  EXPECT_TRUE(CanGo(MigrationWay::kDevice, here, there));
}

TEST(BlockShapeTest, Blocks_CannotMoveBetweenGroups_WithDifferentBackendsOrNumberTypes) {
  const auto differs = [](auto change) {
    BlockShape other = Shape({1});
    change(other.compute);
    return !WhyBlocksStay(Shape({1}), other).empty();
  };
  EXPECT_TRUE(differs([](ComputeSettings& c) { c.backend = BackendKind::kCuda; }));
  EXPECT_TRUE(differs([](ComputeSettings& c) { c.dtype = ModelDtype::kFloat16; }));
  EXPECT_TRUE(differs([](ComputeSettings& c) { c.kv_cache_dtype = KvCacheDtype::kInt8; }));
  EXPECT_FALSE(differs([](ComputeSettings& c) { c.activations = ActivationType::kInt8; }));
}

TEST(BlockShapeTest, HybridStates_CannotMoveBetweenGroups_WithDifferentShares) {
  BlockShape two = Shape({1, 1}), uneven = Shape({1, 2});
  two.state_blocks = uneven.state_blocks = 3;
  EXPECT_EQ(WhyBlocksStay(two, two), "");
  EXPECT_NE(WhyBlocksStay(two, uneven), "");
}

TEST(BlockShapeTest, Blocks_MoveBetweenHosts_OnlyWhenBothGroupsAreOnTheNetwork) {
  BlockShape here = Shape({1}), there = Shape({1});
  there.on_this_host = false;
  EXPECT_TRUE(GoesByNetwork(here, there) && GoesByNetwork(there, here));
  EXPECT_NE(WhyBlocksStay(here, there), "");
  here.on_network = true;
  EXPECT_NE(WhyBlocksStay(here, there), "");
  there.on_network = true;
  EXPECT_EQ(WhyBlocksStay(here, there), "");
}

}  // namespace
}  // namespace quire
