#include "coordinator/cluster/group/host_health.h"

#include <gtest/gtest.h>

#include "coordinator/cluster/launch/silent_hosts.h"

namespace quire {
namespace {

using Hosts = std::set<std::string>;
using std::chrono::minutes;

class HostHealthTest : public ::testing::Test {
 protected:
  void Lose(LossCause cause, Rank rank, const std::string& host) {
    health_.Lost({cause, rank, host, "lost"}, now_, [&](const std::string& h) { return !gone_.contains(h); });
  }

  Hosts gone_;
  HostHealth health_;
  HostHealth::Clock::time_point now_{minutes(100)};
};

TEST_F(HostHealthTest, Host_IsExcluded_AfterTheSecondDeathOfAWorker) {
  Lose(LossCause::kDied, 1, "b");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{});
  Lose(LossCause::kReported, 1, "b");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{"b"});
}

TEST_F(HostHealthTest, Host_IsExcludedImmediately_WhenItDoesNotAnswer) {
  gone_ = {"b"};
  Lose(LossCause::kSilent, 1, "a");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{});
  Lose(LossCause::kSilent, 1, "b");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{"b"});
}

TEST_F(HostHealthTest, LastLostHost_IsExcluded_WhenTheNextEpochDoesNotStart) {
  Lose(LossCause::kDied, -1, "");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{});
  Lose(LossCause::kSilent, 1, "b");
  Lose(LossCause::kNotStarted, -1, "");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{"b"});
}

TEST_F(HostHealthTest, Host_IsUsedAgain_AfterTenMinutes) {
  Lose(LossCause::kDied, 1, "b");
  Lose(LossCause::kDied, 1, "b");
  now_ += minutes(9);
  EXPECT_EQ(health_.LeftOut(now_), Hosts{"b"});
  now_ += minutes(2);
  EXPECT_EQ(health_.LeftOut(now_), Hosts{});
  Lose(LossCause::kDied, 1, "b");
  EXPECT_EQ(health_.LeftOut(now_), Hosts{});
}

/// There are four nodes; the second node has two ranks. Heartbeats are given in ms; 0 means that the rank never sent a
/// heartbeat.
TEST(SilentHostsTest, Hosts_AreSilentTogether_WhenTheirRanksStoppedAndTheyDoNotAnswer) {
  const std::vector<Topology::Node> nodes = {{.host = "a"}, {.host = "b"}, {.host = "c"}, {.host = "d"}};
  const std::vector<NodeRanks> placement = {{0, 0, 1}, {1, 1, 2}, {2, 3, 1}, {3, 4, 1}};
  const auto silent = [&](const std::vector<int>& beats, const Hosts& answering) {
    std::vector<RankInfo> ranks(beats.size());
    for (size_t i = 0; i < beats.size(); ++i)
      ranks[i].last_beat = std::chrono::steady_clock::time_point(std::chrono::milliseconds(beats[i]));
    return SilentHosts(nodes, placement, ranks, [&](const std::string& host) { return answering.contains(host); });
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(silent({10'000, 8'000, 8'100, 8'050, 9'900}, {"a", "d"}), (List{"b", "c"}));
  EXPECT_EQ(silent({10'000, 8'000, 8'100, 8'050, 9'900}, {"a", "c", "d"}), List{"b"}) << "c answers";
  EXPECT_EQ(silent({10'000, 8'000, 9'900, 9'800, 9'900}, {}), List{}) << "a rank of b beats; none is asked in vain";
  EXPECT_EQ(silent({10'000, 10'000, 10'000, 10'000, 0}, {}), List{"d"}) << "d has not beaten yet";
  EXPECT_EQ(silent({0, 0, 0, 0, 0}, {}), List{}) << "nobody has beaten, so nobody is later than others";
  EXPECT_EQ(silent({10'000, 0}, {}), List{}) << "ranks that the group does not have";
}

}  // namespace
}  // namespace quire
