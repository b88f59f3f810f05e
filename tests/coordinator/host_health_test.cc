#include "coordinator/cluster/group/host_health.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace quire
