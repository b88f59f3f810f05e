#pragma once

#include <vector>

#include "comm/topology/compute_settings.h"

namespace quire {

/// How a rank's engine is made; the same on every rank.
struct EngineSizes {
  int block_size = 16;         // tokens
  int max_step_tokens = 0;     // of one step
  int max_running = 0;         // sequences
  int max_model_len = 0;       // tokens of a sequence
  int threads = 1;             // that compute, on the CPU
  std::vector<double> shares;  // one per rank
  ComputeSettings compute;
};

}  // namespace quire
