#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/launch/placement.h"

namespace quire {

/// The mpirun line that starts one epoch's workers: on this host when `placement` is empty, else on the nodes that it
/// names. No shell is involved on this host; on others, mpirun's agent decides (ssh: the user's shell there).
std::vector<std::string> MpirunCommand(const Topology& topology, const std::string& worker_binary,
                                       const std::string& data_endpoint, EpochId epoch, const std::string& session_dir,
                                       const std::vector<NodeRanks>& placement = {});

/// The same line with any command in place of the worker's.
std::vector<std::string> MpirunCommand(const Topology& topology, const std::vector<std::string>& worker_command,
                                       const std::string& session_dir, const std::vector<NodeRanks>& placement);

/// Where the nodes have quire-worker: launch.worker, or where this host has it.
std::string WorkerBinary(const Topology& topology);

/// Throws Error with the remedy when mpirun would refuse to start under this user.
void CheckMpirunAllowed();

/// A program that is installed with this one: beside it, or in PATH.
std::optional<std::string> FindProgram(const std::string& name);

/// The worker binary that belongs to this program: beside it, or in PATH. Throws Error when there is none.
std::string FindWorkerBinary();

}  // namespace quire
