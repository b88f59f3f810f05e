#pragma once

#include <string>
#include <vector>

namespace quire {

/// Processors that are near the same memory, of those that this process may use.
struct NumaNode {
  int number;
  std::vector<int> processors;  // in order
};

/// The host's nodes that have a processor of `allowed`, as Linux lists them: a directory nodeN of `devices` for each,
/// with the node's processors in the file cpulist. None where there is no such directory.
std::vector<NumaNode> ReadNumaNodes(const std::string& devices, const std::vector<int>& allowed);

/// The nodes of rank `rank` of `ranks` that share this host, if they can be shared evenly: as many ranks on each node,
/// or as many nodes for each rank. Empty if not, or if the rank would have all of them.
std::vector<NumaNode> NodesOfRank(const std::vector<NumaNode>& nodes, int rank, int ranks);

/// Keeps this thread, and those that it starts, to the processors of the rank's nodes, so that weights, keys and values
/// lie in memory that is near: they are written first by the threads that read them. Returns a line on what was done;
/// empty where ranks cannot be told apart so, or whoever launched the worker has chosen processors within a node.
std::string KeepToNumaNodes(int rank, int ranks, const std::string& devices = "/sys/devices/system/node");

}  // namespace quire
