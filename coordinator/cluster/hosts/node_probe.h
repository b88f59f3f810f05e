#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/hosts/check_line.h"
#include "coordinator/cluster/hosts/program.h"

namespace quire {

/// The requirements for a node to run its ranks.
struct NodeNeeds {
  const Topology& topology;
  const Topology::Node& node;  // a node without a host name is this host
  int num_ranks;               // 0: a spare node
  std::string fingerprint;     // fingerprint of the coordinator's model; empty: unknown
  int64_t weight_bytes;        // bytes of the weights of the node's ranks
};

/// Returns the command that runs `quire-worker --probe` on a host: through launch.agent, unless `host` is empty or this
/// host.
std::vector<std::string> HostProbeCommand(const Topology& topology, const std::string& host, const std::string& worker);

/// Returns the command that runs `quire-worker --probe ...` on the node, through launch.agent if the node is another
/// host. In that case every word has only characters that no shell interprets; a path with other characters is not
/// probed.
std::vector<std::string> ProbeCommand(const NodeNeeds& needs, const std::string& worker);

/// Parses the output of quire-worker --probe: on each line a key, then its value.
std::map<std::string, std::string> ParseProbe(const std::string& output);

/// The name of the check with the node's own host name in its line. The caller checks that no two nodes have the same
/// host name.
inline constexpr const char* kHostNameCheck = "host name";

/// Turns the result of ProbeCommand into the lines of a check. `limit`: how long the command was allowed to run.
std::vector<CheckLine> JudgeProbe(const NodeNeeds& needs, const std::string& worker, const ProgramResult& result,
                                  std::chrono::seconds limit);

std::string FirstLine(const std::string& text);

}  // namespace quire
