#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// What bringing one preempted sequence back costs each way.
struct RecoveryPoint {
  int block_size = 0, tokens = 0;
  double swap_seconds = 0;  // out and in again
  double recompute_seconds = 0;
};

/// An accelerator behind PCIe whose KV blocks are scattered: every block is one copy per layer for keys and one for
/// values, and every copy has a cost of its own. The defaults are those of MemorySetup's 13B model on one A100-40GB.
struct SwapCost {
  double bytes_per_token = 2.0 * 40 * 5120 * 2;  // keys and values, 16 bits
  int copies_per_block = 2 * 40;
  double seconds_per_copy = 10e-6;
  double bytes_per_second = 25e9;        // PCIe 4.0 x16
  double recompute_per_token = 0.14e-3;  // StepCost::seconds_per_token
};

/// Block sizes 1 to 256 and lengths 128 to 2048 under the model; the literature's crossover (recompute at small blocks,
/// swap at large ones) comes from the cost per copy.
std::vector<RecoveryPoint> ModelRecovery(const SwapCost& cost);

/// One row per block size, one column per length: which way is cheaper, and by what factor.
std::string RecoveryTable(const std::vector<RecoveryPoint>& points);
Json RecoveryJson(const std::vector<RecoveryPoint>& points);

}  // namespace quire
