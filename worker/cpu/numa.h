#pragma once

#include <string>
#include <vector>

namespace quire {

/// A NUMA node: the processors close to one memory, as far as this process may use them.
struct NumaNode {
  int number;
  std::vector<int> processors;  // numbers of the processors, ascending
};

/// Returns the host's NUMA nodes that have at least one allowed processor. Reads the directories nodeN in `devices` and
/// the file cpulist in each. Empty if there are no such directories.
std::vector<NumaNode> ReadNumaNodes(const std::string& devices, const std::vector<int>& allowed);

/// Returns the nodes for `rank` of the `ranks` on this host, if they divide evenly: equally many ranks per node, or
/// equally many nodes per rank. Empty otherwise, or if the rank would get all nodes.
std::vector<NumaNode> NodesOfRank(const std::vector<NumaNode>& nodes, int rank, int ranks);

/// Binds this thread, and threads that it starts, to the processors of the rank's nodes. Weights, keys and values then
/// lie in near memory, because the threads that read them write them first. Returns a line for the log. Returns an
/// empty string if the ranks cannot be divided this way, or if the launcher already chose processors within one node.
std::string KeepToNumaNodes(int rank, int ranks, const std::string& devices = "/sys/devices/system/node");

}  // namespace quire
