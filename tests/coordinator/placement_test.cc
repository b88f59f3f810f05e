#include "coordinator/cluster/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/cluster/launch/group_shape.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Topology::Node Open(const std::string& host) { return {host, {}, "", 0, false}; }
Topology::Node WithDevices(const std::string& host, std::vector<int> devices) { return {host, devices, "", 0, false}; }
Topology::Node Spare(Topology::Node node) {
  node.spare = true;
  return node;
}

/// Returns the placement as text, for example "a:0-1 b:2", or the problem.
std::string Place(std::vector<Topology::Node> nodes, int num_ranks, const std::set<std::string>& excluded = {}) {
  Topology topology;
  topology.nodes = std::move(nodes);
  const Placement placement = PlaceRanks(topology, num_ranks, excluded);
  if (!placement.problem.empty()) return placement.problem;
  std::string text;
  for (const NodeRanks& ranks : placement.nodes) {
    text += text.empty() ? "" : " ";
    text += topology.nodes[ranks.node].host + ":" + std::to_string(ranks.first);
    if (ranks.count > 1) text += "-" + std::to_string(ranks.first + ranks.count - 1);
  }
  return text;
}

TEST(PlacementTest, Ranks_RunOnThisHost_WithoutNodes) {
  const Placement placement = PlaceRanks(Topology(), 4, {});
  EXPECT_THAT(placement.nodes, IsEmpty());
  EXPECT_EQ(placement.problem, "");
}

TEST(PlacementTest, Ranks_FillDevices_InTheOrderOfTheNodes) {
  EXPECT_EQ(Place({WithDevices("a", {0, 1}), WithDevices("b", {0, 1})}, 4), "a:0-1 b:2-3");
  EXPECT_EQ(Place({WithDevices("a", {2, 3}), WithDevices("b", {0})}, 3), "a:0-1 b:2");
  EXPECT_EQ(Place({WithDevices("a", {0, 1}), WithDevices("b", {0, 1})}, 2), "a:0-1");
}

TEST(PlacementTest, Slots_OverrideTheNumberOfDevices) {
  Topology::Node a = WithDevices("a", {0, 1, 2});
  a.slots = 1;
  EXPECT_EQ(Place({a, WithDevices("b", {0, 1})}, 3), "a:0 b:1-2");
}

TEST(PlacementTest, Nodes_ShareRanksEvenly_WithoutSlotsOrDevices) {
  EXPECT_EQ(Place({Open("a"), Open("b")}, 2), "a:0 b:1");
  EXPECT_EQ(Place({Open("a"), Open("b")}, 3), "a:0-1 b:2");
  EXPECT_EQ(Place({Open("a"), Open("b"), Open("c")}, 7), "a:0-2 b:3-4 c:5-6");
  EXPECT_EQ(Place({Open("a"), Open("b"), Open("c")}, 2), "a:0 b:1");
  EXPECT_EQ(Place({Open("a"), WithDevices("b", {0}), Open("c")}, 4), "a:0-1 b:2 c:3");
}

TEST(PlacementTest, Problem_NamesTheNodesAndTheRemedy_WhenRanksDoNotFit) {
  const std::string problem = Place({WithDevices("a", {0, 1}), WithDevices("b", {0})}, 4);
  EXPECT_THAT(problem, HasSubstr("4 ranks do not fit on the nodes (a takes 2, b takes 1)"));
  EXPECT_THAT(problem, HasSubstr("lower parallel.tensor"));
  EXPECT_THAT(Place({Open("a"), Open("b")}, 2, {"a", "b"}), HasSubstr("none is left; left out: a, b"));
}

TEST(PlacementTest, SpareNodes_GetRanks_OnlyWhenAnotherNodeIsExcluded) {
  const std::vector<Topology::Node> nodes = {Open("a"), Open("b"), Spare(Open("s")), Spare(Open("t"))};
  EXPECT_EQ(Place(nodes, 2), "a:0 b:1");
  EXPECT_EQ(Place(nodes, 4), "a:0-1 b:2-3");
  EXPECT_EQ(Place(nodes, 2, {"a"}), "s:0 b:1");
  EXPECT_EQ(Place(nodes, 2, {"a", "b"}), "s:0 t:1");
  EXPECT_EQ(Place(nodes, 2, {"a", "s"}), "t:0 b:1");
  EXPECT_EQ(Place(nodes, 2, {"a", "s", "t"}), "b:0-1");
  EXPECT_THAT(Place({WithDevices("a", {0}), Spare(WithDevices("s", {0}))}, 2), HasSubstr("do not fit"));
}

TEST(PlacementTest, SeveralSmallSpares_ReplaceALargeNode) {
  const std::vector<Topology::Node> nodes = {WithDevices("a", {0, 1, 2}), WithDevices("b", {0}),
                                             Spare(WithDevices("s", {0})), Spare(WithDevices("t", {0, 1}))};
  EXPECT_EQ(Place(nodes, 4, {"a"}), "s:0 b:1 t:2-3");
  EXPECT_THAT(Place(nodes, 4, {"a", "t"}),
              HasSubstr("4 ranks do not fit on the nodes (s takes 1, b takes 1; left out"));
}

TEST(PlacementTest, Ranks_AreConsecutiveOverTheNodes) {
  Topology topology;
  topology.nodes = {Open("a"), WithDevices("b", {0, 1}), Open("c")};
  for (int ranks = 1; ranks < 20; ++ranks) {
    Rank next = 0;
    for (const NodeRanks& node : PlaceRanks(topology, ranks, {}).nodes) {
      EXPECT_EQ(node.first, next);
      EXPECT_GT(node.count, 0);
      next += node.count;
    }
    EXPECT_EQ(next, ranks);
  }
}

TEST(PlacementTest, ThreadsOfWorkers_ShareTheProcessorsOfTheSmallestHost) {
  std::vector<RankInfo> ranks(3);
  ranks[0].host = ranks[1].host = "a";
  ranks[2].host = "b";
  ranks[0].processors = ranks[1].processors = 12;
  ranks[2].processors = 5;
  Topology topology;
  topology.nodes = {Open("a"), Open("b")};
  EXPECT_EQ(ThreadsOfWorkers(topology, ranks), 5);
  ranks[2].processors = 7;
  EXPECT_EQ(ThreadsOfWorkers(topology, ranks), 6) << "two workers share the twelve of a";
  ranks[0].processors = ranks[1].processors = 1;
  EXPECT_EQ(ThreadsOfWorkers(topology, ranks), 1);
  topology.threads_per_worker = 3;
  EXPECT_EQ(ThreadsOfWorkers(topology, ranks), 3);
}

TEST(GroupShapeTest, ShapesUpTo_BeginWithTheShape_AndKeepAsManyWorkersAsPossible) {
  const GroupShape wanted{2, {1, 2}, 3, {4, 4, 4}};
  std::vector<std::pair<int, int>> shapes;
  for (const GroupShape& shape : ShapesUpTo(wanted)) shapes.emplace_back(shape.tensor, shape.pipeline);
  EXPECT_THAT(shapes, ElementsAre(std::pair(2, 3), std::pair(2, 2), std::pair(1, 3), std::pair(1, 2), std::pair(2, 1),
                                  std::pair(1, 1)));
  EXPECT_EQ(ShapesUpTo(wanted)[0], wanted);
  EXPECT_EQ(ShapesUpTo(wanted)[1].shares, wanted.shares) << "as many workers a stage";
  EXPECT_THAT(ShapesUpTo(wanted)[1].stages, IsEmpty()) << "fewer stages have other layers";
  EXPECT_THAT(ShapesUpTo(wanted)[2].shares, IsEmpty());
}

}  // namespace
}  // namespace quire
