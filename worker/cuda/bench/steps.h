#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/cuda/bench/bench.h"

namespace quire::bench {

/// `layers`: two numbers of layers, of which the time of one follows. `profile`: one step alone, between BeginProfile
/// and EndProfile, of a model with the first number; nothing is timed.
struct StepBench {
  int64_t layers[2] = {2, 6};
  std::vector<int> batches = {1, 16, 64, 256};
  int context = 1024;
  bool profile = false;
  std::string models;  // folder that keeps the made-up models for the next process; empty: made anew each time
};
void BenchSteps(Bench& bench, const StepBench& options);

}  // namespace quire::bench
