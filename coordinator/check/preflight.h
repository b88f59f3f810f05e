#pragma once

#include <chrono>
#include <functional>

#include "comm/topology/topology.h"
#include "coordinator/cluster/hosts/check_line.h"

namespace quire {

struct PreflightOptions {
  std::chrono::seconds host_limit{10};  // time allowed for a node's answer
  std::chrono::seconds sums_limit{60};  // time allowed for sums across all nodes
};

/// Checks everything that a start needs: mpirun and its network, the addresses, the model with its checksums and chat
/// template, the placement of the ranks, each node (connection, version, interface, ports, shared memory, memory, keys
/// and model), whether the model fits into memory, file descriptors, and a trial sum (all-reduce) over all ranks.
/// Reports each line when its check ends, and leaves no process running. Skips checks that cannot succeed after an
/// earlier failure.
void RunPreflight(const Topology& topology, const PreflightOptions& options,
                  const std::function<void(const CheckLine&)>& report);

}  // namespace quire
