#include "coordinator/cluster/launch/mpirun_report.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::optional<MpirunReport::Culprit> CulpritIn(std::initializer_list<const char*> lines) {
  MpirunReport report;
  for (const char* line : lines) report.AddLine(line);
  return report.culprit();
}

// The quoted lines are the original messages of Open MPI 4.1.4.

TEST(MpirunReportTest, Culprit_IsTheRankThatASignalKilled) {
  const auto culprit =
      CulpritIn({"--------", "mpirun noticed that process rank 1 with PID 0 on node b-7 exited on signal 9 (Killed).",
                 "--------"});
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 1);
  EXPECT_EQ(culprit->host, "b-7");
  EXPECT_EQ(culprit->how, "was killed by signal 9");
}

TEST(MpirunReportTest, Culprit_IsTheRankThatExited) {
  const auto culprit = CulpritIn({"the job to be terminated. The first process to do so was:", "",
                                  "  Process name: [[28801,1],12]", "  Exit code:    75"});
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 12);
  EXPECT_EQ(culprit->host, "");
  EXPECT_EQ(culprit->how, "exited with status 75");
}

TEST(MpirunReportTest, Culprit_IsTheHostThatLostItsConnection) {
  const auto culprit =
      CulpritIn({"ORTE has lost communication with a remote daemon.", "", "  HNP daemon   : [[5136,0],0] on node a",
                 "  Remote daemon: [[5136,0],1] on node b.example.org",
                 "This is usually due to either a failure of the TCP network"});
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, -1);
  EXPECT_EQ(culprit->host, "b.example.org");
  EXPECT_EQ(culprit->how, "lost its connection");
}

TEST(MpirunReportTest, Culprit_IsTheFirstRankThatMpirunNames) {
  const auto culprit =
      CulpritIn({"mpirun noticed that process rank 2 with PID 0 on node a exited on signal 11 (Segmentation fault).",
                 "mpirun noticed that process rank 0 with PID 0 on node a exited on signal 9 (Killed)."});
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->rank, 2);
}

TEST(MpirunReportTest, Culprit_IsAbsent_WhenMpirunNamesNoCulprit) {
  EXPECT_FALSE(CulpritIn({"quire-worker: rank 1 on b: load: no such model", "mpirun noticed something else",
                          "Exit code: 3", "mpirun noticed that process rank x with PID 0"}));
}

}  // namespace
}  // namespace quire
