#pragma once

#include "comm/topology/topology.h"

namespace quire {

/// `quire bench latency`: the same batch again and again, against what the machine can do at the most.
struct LatencyBench {
  int batch_size = 1;
  int input_len = 512;
  int output_len = 128;
  int num_iters = 3;  // after one that is not counted
  bool json = false;
};

/// Measures the machine, launches the workers, runs the batches, prints medians and ranges. Returns the exit status.
int RunLatencyBench(const Topology& topology, const LatencyBench& bench);

}  // namespace quire
