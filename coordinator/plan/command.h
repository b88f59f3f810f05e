#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/topology/topology.h"

namespace quire {

struct PlanCommand {
  double rank_memory_gib = 0;  // above 0: instead of what the hosts have now
  /// Of all ranks together: GB/s that they read, and TFLOP/s of products; none: measured here, on the CPU.
  std::vector<double> peaks;
  bool speed = true;
  std::string trace;          // of requests; empty: none
  std::vector<double> rates;  // at which they come, as multiples of the trace's
  bool json = false;
};

/// `quire plan`: prints memory, blocks, concurrency and predicted speed of a topology, and the mpirun line; starts
/// nothing that serves. Returns 0 when the model fits. Else it says what would, and returns 1.
int RunPlanCommand(const Topology& topology, const PlanCommand& command);

}  // namespace quire
