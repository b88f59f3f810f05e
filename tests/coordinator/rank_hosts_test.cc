#include "coordinator/cluster/launch/rank_hosts.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;

const auto kEnd = std::chrono::steady_clock::time_point(std::chrono::hours(1));

RankInfo Of(const std::string& host, milliseconds last_beat_after_end) {
  RankInfo rank;
  rank.host = host;
  rank.last_beat = kEnd + last_beat_after_end;
  return rank;
}

TEST(RankHostsTest, LossOfMpirun_BlamesTheHostWhoseRanksStillBeat) {
  const std::vector<RankInfo> ranks = {Of("a", milliseconds(-100)), Of("b", milliseconds(450)),
                                       Of("b", milliseconds(100)), Of("c", milliseconds(50))};
  EXPECT_EQ(HostThatOutlives(ranks, kEnd), "b");
  const GroupFailure loss = LossOfMpirun(std::nullopt, "exited with status 9", ranks, kEnd);
  EXPECT_EQ(loss.host, "b");
  EXPECT_STREQ(loss.what(), "host b lost mpirun's daemon: mpirun exited with status 9");
}

TEST(RankHostsTest, LossOfMpirun_BlamesNoHost_WhenHeartbeatsSingleOutNoHost) {
  const std::vector<RankInfo> silent = {Of("a", milliseconds(-10)), Of("b", milliseconds(150))};
  EXPECT_EQ(HostThatOutlives(silent, kEnd), "");
  const std::vector<RankInfo> loud = {Of("a", milliseconds(400)), Of("b", milliseconds(500))};
  EXPECT_EQ(LossOfMpirun(std::nullopt, "was killed by signal 9", loud, kEnd).host, "");
  const std::vector<RankInfo> alone = {Of("a", milliseconds(400))};
  EXPECT_STREQ(LossOfMpirun(std::nullopt, "exited with status 1", alone, kEnd).what(),
               "a worker is gone: mpirun exited with status 1");
}

TEST(RankHostsTest, LossOfMpirun_PrefersTheCulpritThatMpirunNames) {
  const std::vector<RankInfo> ranks = {Of("node-a", milliseconds(0)), Of("node-b", milliseconds(500))};
  MpirunReport::Culprit culprit{0, "a-as-mpirun-calls-it", "was killed by signal 9"};
  EXPECT_EQ(LossOfMpirun(culprit, "exited with status 137", ranks, kEnd).host, "node-a");
  culprit = {-1, "node-a", "lost its connection"};
  EXPECT_STREQ(LossOfMpirun(culprit, "exited with status 1", ranks, kEnd).what(), "host node-a lost its connection");
}

TEST(RankHostsTest, RanksOfHosts_CountsRanksPerHost) {
  const std::vector<RankInfo> ranks = {Of("a", {}), Of("b", {}), Of("b", {})};
  EXPECT_EQ(RanksOfHosts(ranks), (std::map<std::string, int>{{"a", 1}, {"b", 2}}));
}

}  // namespace
}  // namespace quire
