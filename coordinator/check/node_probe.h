#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/check/preflight.h"
#include "coordinator/check/program.h"

namespace quire {

/// What a node must have.
struct NodeNeeds {
  const Topology& topology;
  const Topology::Node& node;  // without a host: this one
  int num_ranks;               // 0: a spare node
  std::string fingerprint;     // of the coordinator's model; empty: unknown
  int64_t weight_bytes;        // of its ranks
};

/// `quire-worker --probe` there, by way of launch.agent unless the node is this host (or has no name): what the host
/// has.
std::vector<std::string> HostProbeCommand(const Topology& topology, const std::string& host, const std::string& worker);

/// `quire-worker --probe ...` there: by way of launch.agent, unless the node is this host. Every word is of characters
/// that no shell interprets; a model path that has others is not asked for.
std::vector<std::string> ProbeCommand(const NodeNeeds& needs, const std::string& worker);

/// The lines of the answer (quire-worker --probe): a key, and the rest of its line.
std::map<std::string, std::string> ParseProbe(const std::string& output);

/// The line that tells what the node calls itself; whether another one does so, too, is for the caller to see.
inline constexpr const char* kHostNameCheck = "host name";

/// What the answer says about the node.
std::vector<CheckLine> JudgeProbe(const NodeNeeds& needs, const std::string& worker, const ProgramResult& result,
                                  std::chrono::seconds limit);

std::string FirstLine(const std::string& text);

}  // namespace quire
