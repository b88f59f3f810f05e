#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/topology.h"
#include "comm/types.h"

namespace quire {

/// The mpirun line that starts one epoch's workers on this host. No shell is involved.
std::vector<std::string> MpirunCommand(const Topology& topology, const std::string& worker_binary,
                                       const std::string& data_endpoint, EpochId epoch, const std::string& session_dir);

/// Throws Error with the remedy when mpirun would refuse to start under this user.
void CheckMpirunAllowed();

/// A program that is installed with this one: beside it, or in PATH.
std::optional<std::string> FindProgram(const std::string& name);

/// The worker binary that belongs to this program: beside it, or in PATH. Throws Error when there is none.
std::string FindWorkerBinary();

}  // namespace quire
