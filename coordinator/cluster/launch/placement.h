#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// The ranks of one node: first, first + 1, ..., first + count - 1.
struct NodeRanks {
  size_t node = 0;  // index into Topology::nodes
  Rank first = 0;
  int count = 0;
  bool operator==(const NodeRanks&) const = default;
};

struct Placement {
  std::vector<NodeRanks> nodes;  // hosts and their ranks, in rank order; empty: all ranks on this host
  std::string problem;           // the reason why the ranks cannot be placed, and the remedy; empty: placed
};

/// Assigns num_ranks ranks to nodes in the order of the topology. A node takes as many ranks as it has slots or
/// devices; nodes without either share the remaining ranks evenly. Hosts in `excluded` get none. Nodes marked `spare`
/// get ranks only when a host is excluded: the first spare replaces it, and more follow if needed.
Placement PlaceRanks(const Topology& topology, int num_ranks, const std::set<std::string>& excluded);

/// Returns the nodes of one replica. If each replica has n ranks, replica r gets the node slots and devices of the
/// ranks [r * n, (r + 1) * n), and the spare nodes with index % replicas == r. Throws Error when the nodes have too few
/// slots.
std::vector<Topology::Node> NodesOfReplica(const Topology& topology, int replica);

/// Returns the device of each rank, given the ranks' hosts. If the topology lists devices of a host, the host's ranks
/// get them in order; on a host without a list, its i-th rank gets device i. The result is empty when the topology
/// lists no devices. Throws Error when a host has more ranks than listed devices.
std::vector<int> DevicesOfRanks(const Topology& topology, const std::vector<std::string>& hosts);

/// Returns the number of compute threads of a worker when `workers_of_host` workers share a host like this one: the
/// topology's number, or an even share of the processors that affinity and CPU quotas allow.
int ThreadsOfWorker(const Topology& topology, int workers_of_host);

/// Returns what ThreadsOfWorker returns, for the processors that the ranks' hosts have reported. All ranks get the
/// smallest of the hosts' numbers.
int ThreadsOfWorkers(const Topology& topology, const std::vector<RankInfo>& ranks);

/// True when workers may compute on GPUs, judged before the workers report their devices.
bool MayUseGpus(const Topology& topology);

/// True when the workers' threads leave too few cores on this host for `other_threads` other threads. If workers run on
/// several hosts or were started by another party, their number on this host is unknown. Then returns true unless the
/// workers may use GPUs.
bool WorkersNeedAllCores(const Topology& topology, int other_threads);

}  // namespace quire
