#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/cuda/bench/bench.h"

namespace quire::bench {

/// `layers`: two numbers of layers; the difference of their times gives the time of one layer. `profile`: times
/// nothing, but runs one step of a model with the first number of layers between BeginProfile and EndProfile.
struct StepBench {
  int64_t layers[2] = {2, 6};
  std::vector<int> batches = {1, 16, 64, 256};
  int context = 1024;
  bool profile = false;
  std::string models;  // directory in which made-up models stay; empty: make them anew each time
};
void BenchSteps(Bench& bench, const StepBench& options);

}  // namespace quire::bench
