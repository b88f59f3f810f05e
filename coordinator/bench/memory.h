#pragma once

#include <optional>
#include <string>

#include "comm/topology/topology.h"
#include "coordinator/bench/memory_report.h"

namespace quire {

/// `quire bench memory`: what paging the KV cache saves. Always on the simulated server; with a model on its workers,
/// too.
struct MemoryBenchCommand {
  MemoryBench simulated;
  std::optional<Topology> topology;  // of the real runs
  int real_requests = 32;
  int real_max_model_len = 2048;
  std::string lengths = "sharegpt";  // of the real trace
  bool json = false;
  std::string plot_directory;  // empty: no charts
};

/// Prints tables (with json: on standard error, and JSON on standard output) and writes charts. Returns the exit
/// status.
int RunMemoryBenchCommand(const MemoryBenchCommand& command);

}  // namespace quire
