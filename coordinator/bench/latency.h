#pragma once

#include "comm/topology/topology.h"

namespace quire {

/// Settings of `quire bench latency`, which repeats one batch and compares its times with the machine's peak rates.
struct LatencyBench {
  int batch_size = 1;
  int input_len = 512;
  int output_len = 128;
  int num_iters = 3;  // measured iterations, after one that is not counted
  bool json = false;
};

/// Measures the machine, launches the workers, runs the batches, and prints medians and ranges. Returns the exit
/// status.
int RunLatencyBench(const Topology& topology, const LatencyBench& bench);

}  // namespace quire
