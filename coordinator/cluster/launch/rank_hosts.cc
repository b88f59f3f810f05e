#include "coordinator/cluster/launch/rank_hosts.h"

#include <algorithm>
#include <set>

namespace quire {

namespace {

// A heartbeat that was on its way when mpirun ended proves nothing about its rank.
constexpr auto kOnItsWay = std::chrono::milliseconds(200);

}  // namespace

std::vector<std::string> HostsOfRanks(const std::vector<RankInfo>& ranks) {
  std::vector<std::string> hosts;
  for (const RankInfo& rank : ranks) hosts.push_back(rank.host);
  return hosts;
}

std::map<std::string, int> RanksOfHosts(const std::vector<RankInfo>& ranks) {
  std::map<std::string, int> counts;
  for (const RankInfo& rank : ranks) ++counts[rank.host];
  return counts;
}

std::map<std::string, int> RanksOfAllReplicas(const Topology& topology, const std::vector<RankInfo>& ranks) {
  std::map<std::string, int> counts = RanksOfHosts(ranks);
  for (auto& [host, count] : counts) {
    const auto node = std::ranges::find(topology.nodes, host, &Topology::Node::host);
    const bool known = node != topology.nodes.end() && node->ranks_of_all > 0;
    count = known ? node->ranks_of_all : OnThisHost(topology) ? count * topology.parallel.replicas : count;
  }
  return counts;
}

std::string HostThatOutlives(const std::vector<RankInfo>& ranks, std::chrono::steady_clock::time_point mpirun_ended) {
  std::set<std::string> heard;
  for (const RankInfo& rank : ranks) {
    if (rank.last_beat > mpirun_ended + kOnItsWay) heard.insert(rank.host);
  }
  return heard.size() == 1 ? *heard.begin() : "";
}

GroupFailure LossOfMpirun(const std::optional<MpirunReport::Culprit>& culprit, const std::string& how_it_ended,
                          const std::vector<RankInfo>& ranks, std::chrono::steady_clock::time_point when) {
  if (!culprit) {
    const std::string host = RanksOfHosts(ranks).size() > 1 ? HostThatOutlives(ranks, when) : "";
    const std::string what = host.empty() ? "a worker is gone" : fmt::format("host {} lost mpirun's daemon", host);
    return {LossCause::kDied, -1, host, fmt::format("{}: mpirun {}", what, how_it_ended)};
  }
  if (culprit->rank < 0)
    return {LossCause::kDied, -1, culprit->host, fmt::format("host {} {}", culprit->host, culprit->how)};
  const bool joined = static_cast<size_t>(culprit->rank) < ranks.size();
  const std::string host = joined ? ranks[static_cast<size_t>(culprit->rank)].host : culprit->host;
  return {LossCause::kDied, culprit->rank, host,
          fmt::format("rank {} on {} {}", culprit->rank, host.empty() ? "an unknown host" : host, culprit->how)};
}

}  // namespace quire
