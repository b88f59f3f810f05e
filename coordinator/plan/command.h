#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/plan/cut_report.h"

namespace quire {

struct PlanCommand {
  double rank_memory_gib = 0;  // above 0: replaces the hosts' free memory
  /// Peak rates of all ranks together: GB/s read from memory, and TFLOP/s of products. If empty, the rates are measured
  /// on this host's CPU.
  std::vector<double> peaks;
  bool speed = true;
  std::string trace;          // file with requests; empty: none
  std::vector<double> rates;  // arrival rates to try, as multiples of the trace's rate
  CutQuestion cuts;
  bool json = false;
};

/// Runs `quire plan`: prints memory, blocks, concurrency and predicted speed of a topology, and the mpirun command. For
/// a list of models, plans each model with its share of this host's memory. Starts no server. Returns 0 when the model,
/// or the list, fits. Otherwise prints the reason and, for one model, the changes with which the model would fit. Then
/// returns 1.
int RunPlanCommand(const Topology& topology, const PlanCommand& command);

}  // namespace quire
