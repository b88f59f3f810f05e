#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/launch/placement.h"

namespace quire {

/// The most bytes of a message that MPI sends to another host without first asking whether the receiver waits for it.
inline constexpr int64_t kLongestUnaskedMessage = 320 << 10;

/// Returns the mpirun command line for one epoch's workers: on this host if `placement` is empty, otherwise on the
/// nodes that it names. No shell runs on this host; on other hosts mpirun's agent decides (with ssh: the user's shell).
std::vector<std::string> MpirunCommand(const Topology& topology, const std::string& worker_binary,
                                       const std::string& data_endpoint, EpochId epoch, const std::string& session_dir,
                                       const std::vector<NodeRanks>& placement = {});

/// Like the other MpirunCommand, with `worker_command` in place of the worker's binary and its arguments.
std::vector<std::string> MpirunCommand(const Topology& topology, const std::vector<std::string>& worker_command,
                                       const std::string& session_dir, const std::vector<NodeRanks>& placement);

/// Returns the path of quire-worker on the nodes: launch.worker, or this host's path.
std::string WorkerBinary(const Topology& topology);

/// Throws Error with the remedy when mpirun is missing or would refuse to run as this user.
void CheckMpirunAllowed();

/// Returns a program installed with this one: beside this executable, or in PATH; nullopt when it is in neither.
std::optional<std::string> FindProgram(const std::string& name);

/// Returns the worker binary beside this executable or in PATH. Throws Error when there is none.
std::string FindWorkerBinary();

}  // namespace quire
