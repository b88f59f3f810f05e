#include "coordinator/cluster/launch/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "coordinator/cluster/launch/runtime_dir.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Topology TwoNodes() {
  Topology t;
  t.parallel.tensor = 3;
  t.nodes = {{"node-a", {}, "eth0", 0, false}, {"10.0.0.2", {}, "ib0", 0, false}};
  t.transport.bind = "10.0.0.1";
  t.transport.ports = {5570, 5571};
  t.launch.agent = "/opt/agent";
  return t;
}

std::string Line(const Topology& t, const std::vector<NodeRanks>& placement) {
  return fmt::format(
      "{}", fmt::join(MpirunCommand(t, "/opt/quire-worker", "tcp://10.0.0.1:5570", 7, "/run/q", placement), " "));
}

TEST(LauncherTest, RuntimeDir_FallsBackToTmp_WhenTheRuntimeFolderHasALongPath) {
  const TemporaryDirectory near;
  const std::string far = near / std::string(120, 'x');
  std::filesystem::create_directory(far);
  if (near.path().size() <= 64) {  // the machine's own temporary folder may have too long a path
    ::setenv("XDG_RUNTIME_DIR", near.path().c_str(), 1);
    EXPECT_THAT(RuntimeDir().path(), StartsWith(near / "quire."));
  }
  ::setenv("XDG_RUNTIME_DIR", far.c_str(), 1);
  EXPECT_THAT(RuntimeDir().path(), StartsWith("/tmp/quire."));
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST(LauncherTest, Command_PassesTheLogFormatToWorkers) {
  Topology t;
  EXPECT_THAT(Line(t, {}), Not(HasSubstr("--log-format")));
  t.logs.format = LogFormat::kJson;
  EXPECT_THAT(Line(t, {}), HasSubstr("quire-worker --coordinator tcp://10.0.0.1:5570 --epoch 7 --log-format json"));
}

TEST(LauncherTest, Command_NamesNeitherAgentNorNetwork_OnOneHost) {
  Topology t;
  t.parallel.tensor = 2;
  const std::string line = Line(t, {});
  EXPECT_THAT(line, StartsWith("mpirun -np 2 "));
  EXPECT_THAT(line, HasSubstr("--mca plm isolated "));
  EXPECT_THAT(line, HasSubstr("--mca btl self,vader "));
  EXPECT_THAT(line, HasSubstr("--mca oob_tcp_if_include lo "));
  EXPECT_THAT(line, HasSubstr("/opt/quire-worker --coordinator tcp://10.0.0.1:5570 --epoch 7"));
  EXPECT_THAT(line, Not(HasSubstr("--host")));
}

TEST(LauncherTest, Command_ListsNodesWithTheirRanksAndInterfaces_InRankOrder) {
  const std::string line = Line(TwoNodes(), {{1, 0, 2}, {0, 2, 1}});
  EXPECT_THAT(line, HasSubstr(" --mca btl_tcp_eager_limit 327680 "));
  EXPECT_THAT(line, HasSubstr(" -np 2 --host 10.0.0.2:2 --wd / -x NCCL_SOCKET_IFNAME=ib0 "));
  EXPECT_THAT(line, HasSubstr("--node 10.0.0.2 : -np 1 --host node-a:1 --wd / -x NCCL_SOCKET_IFNAME=eth0 "));
  EXPECT_THAT(line, HasSubstr("--mca btl_tcp_if_include ib0,eth0 "));
  EXPECT_THAT(line, HasSubstr("--mca oob_tcp_if_include ib0,eth0 "));
  EXPECT_THAT(line, HasSubstr("--mca plm_rsh_agent /opt/agent "));
  EXPECT_THAT(line, HasSubstr("--mca btl self,tcp "));
}

TEST(LauncherTest, Command_IncludesTheInterfaceOfTheCoordinator) {
  Topology t = TwoNodes();
  t.transport.bind = "127.0.0.1";
  EXPECT_THAT(Line(t, {{0, 0, 2}, {1, 2, 1}}), HasSubstr("--mca oob_tcp_if_include eth0,ib0,lo "));
  t.nodes[0].interface = t.nodes[1].interface = "10.0.0.0/24";
  EXPECT_THAT(Line(t, {{0, 0, 2}, {1, 2, 1}}), HasSubstr("--mca oob_tcp_if_include 10.0.0.0/24 "));
}

TEST(LauncherTest, Command_KeepsPortsInTheConfiguredRange) {
  Topology t = TwoNodes();
  t.transport.mpi_ports = {47000, 47019};
  const std::string line = Line(t, {{0, 0, 2}, {1, 2, 1}});
  EXPECT_THAT(line, HasSubstr("--mca oob_tcp_dynamic_ipv4_ports 47000-47003 "));
  EXPECT_THAT(line, HasSubstr("--mca oob_tcp_dynamic_ipv6_ports 47004-47007 "));
  EXPECT_THAT(line, HasSubstr("--mca btl_tcp_port_min_v4 47008 --mca btl_tcp_port_range_v4 12 "));
  EXPECT_THAT(line, HasSubstr("--mca btl_tcp_port_min_v6 47008 --mca btl_tcp_port_range_v6 12 "));
}

TEST(LauncherTest, Command_DoesNotNameAnInterfaceForNccl_WhenANetworkIsGiven) {
  Topology t = TwoNodes();
  t.nodes[0].interface = t.nodes[1].interface = "10.0.0.0/24";
  const std::string line = Line(t, {{0, 0, 2}, {1, 2, 1}});
  EXPECT_THAT(line, Not(HasSubstr("NCCL_SOCKET_IFNAME")));
  EXPECT_THAT(line, HasSubstr("--mca btl_tcp_if_include 10.0.0.0/24 "));
}

TEST(LauncherTest, Command_PassesOnlyListedEnvironmentVariables) {
  ::setenv("QUIRE_ISA", "avx2", 1);
  ::setenv("API_TOKEN", "secret", 1);
  const std::string line = Line(TwoNodes(), {{0, 0, 2}, {1, 2, 1}});
  EXPECT_THAT(line, HasSubstr("-x QUIRE_ISA /opt/quire-worker"));
  EXPECT_THAT(line, Not(HasSubstr("API_TOKEN")));
  ::unsetenv("QUIRE_ISA");
  EXPECT_THAT(Line(TwoNodes(), {{0, 0, 2}, {1, 2, 1}}), Not(HasSubstr("QUIRE_ISA")));
}

TEST(LauncherTest, DevicesOfRanks_FollowTheHostOfEachRank) {
  Topology t = TwoNodes();
  EXPECT_EQ(DevicesOfRanks(t, {"node-a", "10.0.0.2"}), std::vector<int>());
  t.nodes[1].devices = {5, 3};
  EXPECT_EQ(DevicesOfRanks(t, {"10.0.0.2", "node-a", "10.0.0.2", "node-a"}), (std::vector<int>{5, 0, 3, 1}));
  EXPECT_ANY_THROW(DevicesOfRanks(t, {"10.0.0.2", "10.0.0.2", "10.0.0.2"}));
  Topology local;
  local.nodes = {{"localhost", {4, 6}, "", 0, false}};
  EXPECT_EQ(DevicesOfRanks(local, {"workstation", "workstation"}), (std::vector<int>{4, 6}));
}

}  // namespace
}  // namespace quire
