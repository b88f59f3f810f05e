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

/// The host of every rank, as the ranks said when they joined.
std::vector<std::string> HostsOfRanks(const std::vector<RankInfo>& ranks);
std::map<std::string, int> RanksOfHosts(const std::vector<RankInfo>& ranks);
/// The same of all replicas. Where no node says how many it has, all of them are on this host.
std::map<std::string, int> RanksOfAllReplicas(const Topology& topology, const std::vector<RankInfo>& ranks);

/// How long after mpirun's end the ranks of a lost daemon are still heard: they find out within a second.
inline constexpr auto kLastBeats = std::chrono::milliseconds(700);

/// When mpirun ends because it lost one of its daemons, it does not say which; but it ends the ranks of all others at
/// once. The host whose ranks still beat was the one; empty when that does not single one out.
std::string HostThatOutlives(const std::vector<RankInfo>& ranks, std::chrono::steady_clock::time_point mpirun_ended);

/// The loss of a group whose mpirun has ended, as well as it can be told who was the cause.
GroupFailure LossOfMpirun(const std::optional<MpirunReport::Culprit>& culprit, const std::string& how_it_ended,
                          const std::vector<RankInfo>& ranks, std::chrono::steady_clock::time_point when);

}  // namespace quire
