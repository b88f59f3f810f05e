#pragma once

#include "comm/topology/topology.h"

namespace quire {

/// Settings of `quire bench throughput`: random prompts of one length, greedy and without stop tokens.
struct ThroughputBench {
  int num_prompts = 32;
  int input_len = 128;
  int output_len = 64;
  bool json = false;
};

/// Launches the workers, runs the requests, and prints tokens per second and latencies. Returns the exit status.
int RunThroughputBench(const Topology& topology, const ThroughputBench& bench);

}  // namespace quire
