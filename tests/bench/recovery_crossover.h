#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// The costs of resuming one preempted sequence, by swapping and by recomputing.
struct RecoveryPoint {
  int block_size = 0, tokens = 0;
  double swap_seconds = 0;  // time for a swap to the host and back
  double recompute_seconds = 0;
};

/// The cost model of an accelerator behind PCIe with scattered KV blocks. A block takes two copies per layer, one for
/// keys and one for values, and each copy has a fixed cost. The defaults are for MemorySetup's 13B model on one
/// A100-40GB.
struct SwapCost {
  double bytes_per_token = 2.0 * 40 * 5120 * 2;  // keys and values, 16 bits
  int copies_per_block = 2 * 40;
  double seconds_per_copy = 10e-6;
  double bytes_per_second = 25e9;        // PCIe 4.0 x16
  double recompute_per_token = 0.14e-3;  // StepCost::seconds_per_token
};

/// Computes the costs for block sizes 1 to 256 and lengths 128 to 2048. The fixed cost per copy causes the published
/// crossover: recomputing is cheaper at small blocks, swapping at large ones.
std::vector<RecoveryPoint> ModelRecovery(const SwapCost& cost);

/// Returns a table with one row per block size and one column per length: the cheaper way, and how many times cheaper
/// it is.
std::string RecoveryTable(const std::vector<RecoveryPoint>& points);
Json RecoveryJson(const std::vector<RecoveryPoint>& points);

}  // namespace quire
