#include "coordinator/cluster/launch/private_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/base/error.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(PrivateNetworkTest, PrivateNetwork_IsUsedOnly_ForWorkersOfThisHostOverUnixSockets) {
  Topology t;
  t.compute.backend = BackendKind::kCpu;
  t.transport.private_network = PrivateNetworkMode::kOff;
  EXPECT_THAT(ChoosePrivateNetwork(t).reason, HasSubstr("is off"));
  t.transport.private_network = PrivateNetworkMode::kAuto;
  t.transport.bind = "127.0.0.1";
  EXPECT_THAT(ChoosePrivateNetwork(t).reason, HasSubstr("transport.bind"));
  t.nodes = {{"node-a", {}, "eth0", 0, false}, {"node-b", {}, "eth0", 0, false}};
  EXPECT_THAT(ChoosePrivateNetwork(t).reason, HasSubstr("several hosts"));
  t.launch.method = LaunchMethod::kExternal;
  const PrivateNetwork external = ChoosePrivateNetwork(t);
  EXPECT_FALSE(external.used);
  EXPECT_TRUE(external.prefix.empty());
  EXPECT_THAT(external.reason, HasSubstr("somebody else"));
  EXPECT_FALSE(external.on_loopback) << "mpirun is another program's";
}

TEST(PrivateNetworkTest, PrivateNetwork_IsNotUsedByDefault_OnGpus) {
  Topology t;
  t.compute.backend = BackendKind::kCuda;
  EXPECT_THAT(ChoosePrivateNetwork(t).reason, HasSubstr("GPUs"));
}

TEST(PrivateNetworkTest, PrivateNetwork_On_IsRefused_WhenATcpAddressIsBound) {
  Topology t;
  t.compute.backend = BackendKind::kCpu;
  t.transport.private_network = PrivateNetworkMode::kOn;
  t.transport.bind = "127.0.0.1";
  EXPECT_THROW(ChoosePrivateNetwork(t), Error);
}

}  // namespace
}  // namespace quire
