#include "worker/cpu/numa.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

/// A directory of NUMA nodes laid out as Linux lists them.
class NodesTest : public testing::Test {
 protected:
  void Add(int number, const std::string& processors) {
    const std::filesystem::path node = path() / ("node" + std::to_string(number));
    std::filesystem::create_directory(node);
    std::ofstream(node / "cpulist") << processors << '\n';
  }
  std::filesystem::path path() const { return directory_.path(); }
  std::vector<NumaNode> Read(const std::vector<int>& allowed) const { return ReadNumaNodes(path(), allowed); }

 private:
  TemporaryDirectory directory_;
};

std::vector<int> UpTo(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int> NumbersOf(const std::vector<NumaNode>& nodes) {
  std::vector<int> numbers;
  for (const NumaNode& node : nodes) numbers.push_back(node.number);
  return numbers;
}

TEST_F(NodesTest, ReadNumaNodes_ListsNodesInOrderWithTheirAllowedProcessors) {
  Add(10, "4-5,7");
  Add(2, "0-3,8");
  Add(3, "");  // a node with memory and without processors
  std::ofstream(path() / "online") << "0\n";
  std::filesystem::create_directory(path() / "power");
  const std::vector<NumaNode> nodes = Read({1, 2, 5, 6, 7, 8});
  ASSERT_EQ(NumbersOf(nodes), (std::vector<int>{2, 10}));
  EXPECT_EQ(nodes[0].processors, (std::vector<int>{1, 2, 8}));
  EXPECT_EQ(nodes[1].processors, (std::vector<int>{5, 7}));
  EXPECT_EQ(NumbersOf(Read({0, 1})), (std::vector<int>{2})) << "a launcher has chosen processors of one node";
}

TEST_F(NodesTest, ReadNumaNodes_StopsAtTheFirstMalformedEntry_InAProcessorList) {
  Add(0, "0-1,x,3");
  Add(1, "5-99999999999");
  Add(2, "-4");
  const std::vector<NumaNode> nodes = Read(UpTo(100));
  ASSERT_EQ(NumbersOf(nodes), (std::vector<int>{0}));
  EXPECT_EQ(nodes[0].processors, (std::vector<int>{0, 1}));
  EXPECT_TRUE(ReadNumaNodes(path() / "not there", UpTo(4)).empty());
}

TEST_F(NodesTest, NodesOfRank_SharesNodesEvenlyOrGivesNone) {
  for (int i = 0; i < 4; ++i) Add(i, std::to_string(2 * i) + "-" + std::to_string(2 * i + 1));
  const std::vector<NumaNode> four = Read(UpTo(8)), two = Read(UpTo(4));
  const auto shares = [](const std::vector<NumaNode>& nodes, int ranks) {
    std::vector<std::vector<int>> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(NumbersOf(NodesOfRank(nodes, rank, ranks)));
    return all;
  };
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(shares(two, 1), (Shares{{}}));
  EXPECT_EQ(shares(two, 2), (Shares{{0}, {1}}));
  EXPECT_EQ(shares(two, 3), (Shares{{}, {}, {}}));
  EXPECT_EQ(shares(two, 4), (Shares{{0}, {0}, {1}, {1}}));
  EXPECT_EQ(shares(four, 2), (Shares{{0, 1}, {2, 3}}));
  EXPECT_EQ(shares(four, 3), (Shares{{}, {}, {}}));
  EXPECT_EQ(shares({two[0]}, 2), (Shares{{}, {}})) << "one node";
}

TEST_F(NodesTest, KeepToNumaNodes_BindsTheThreadAndItsChildren) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  std::vector<int> mine;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &before)) mine.push_back(i);
  }
  if (mine.size() < 2) GTEST_SKIP() << "one processor";
  Add(0, std::to_string(mine[0]));
  Add(1, std::to_string(mine[1]));
  std::thread([&] {
    EXPECT_EQ(KeepToNumaNodes(1, 2, path()), "keeps to NUMA node 1, 1 processors");
    std::thread([&] {
      cpu_set_t kept;
      ASSERT_EQ(::sched_getaffinity(0, sizeof(kept), &kept), 0);
      EXPECT_EQ(CPU_COUNT(&kept), 1);
      EXPECT_TRUE(CPU_ISSET(mine[1], &kept));
    }).join();
    EXPECT_EQ(KeepToNumaNodes(0, 2, path()), "") << "what is within one node already stays";
  }).join();
  std::thread([&] { EXPECT_EQ(KeepToNumaNodes(0, 1, path()), "") << "a rank alone has all nodes"; }).join();
}

}  // namespace
}  // namespace quire
