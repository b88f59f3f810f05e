#pragma once

#include <string>
#include <vector>

namespace quire {

/// A NUMA node and those of its processors that this process may use.
struct NumaNode {
  int number;
  std::vector<int> processors;  // numbers of the processors, ascending
};

/// Returns the host's NUMA nodes that have at least one allowed processor. Reads the directories nodeN in `devices` and
/// the file cpulist in each. Returns no nodes if there are no such directories.
std::vector<NumaNode> ReadNumaNodes(const std::string& devices, const std::vector<int>& allowed);

/// Returns the nodes for `rank` of the `ranks` on this host, if nodes and ranks divide evenly: equally many ranks per
/// node, or equally many nodes per rank. Returns no nodes otherwise, or if the rank would get all nodes.
std::vector<NumaNode> NodesOfRank(const std::vector<NumaNode>& nodes, int rank, int ranks);

/// Binds this thread, and all threads that it starts later, to the processors of the rank's nodes. Weights, keys and
/// values then lie in near memory, because the threads that read them also write them first. Returns a line for the
/// log; returns an empty string if the ranks cannot be divided this way, or if the launcher already chose processors
/// within one node.
std::string KeepToNumaNodes(int rank, int ranks, const std::string& devices = "/sys/devices/system/node");

}  // namespace quire
