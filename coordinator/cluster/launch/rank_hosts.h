#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/group/group_failure.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/cluster/launch/mpirun_report.h"

namespace quire {

/// Returns the host of every rank, as the rank reported it when it joined.
std::vector<std::string> HostsOfRanks(const std::vector<RankInfo>& ranks);
/// Returns the number of ranks on each host.
std::map<std::string, int> RanksOfHosts(const std::vector<RankInfo>& ranks);
/// Returns the number of ranks of all replicas on each host: Node::ranks_of_all where the topology states it. Otherwise
/// counts the given ranks, once per replica if all workers are on this host.
std::map<std::string, int> RanksOfAllReplicas(const Topology& topology, const std::vector<RankInfo>& ranks);

/// The time to wait after mpirun's end before looking for the host of a lost daemon. The ranks of that host still send
/// heartbeats then: they notice mpirun's end only within a second.
inline constexpr auto kLastBeats = std::chrono::milliseconds(700);

/// Returns the host whose mpirun daemon was lost. mpirun does not name that host, but ends the ranks of all other hosts
/// before it ends itself. So the lost host is the only host whose ranks still send heartbeats. The result is empty
/// unless there is exactly one such host.
std::string HostThatOutlives(const std::vector<RankInfo>& ranks, std::chrono::steady_clock::time_point mpirun_ended);

/// Returns the failure of a group whose mpirun ended at `when`, with the most likely cause. how_it_ended: text for the
/// message.
GroupFailure LossOfMpirun(const std::optional<MpirunReport::Culprit>& culprit, const std::string& how_it_ended,
                          const std::vector<RankInfo>& ranks, std::chrono::steady_clock::time_point when);

}  // namespace quire
