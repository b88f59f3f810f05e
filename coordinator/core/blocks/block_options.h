#pragma once

#include "coordinator/core/blocks/prefix_cache.h"

namespace quire {

struct BlockManagerOptions {
  int num_blocks = 0;       // blocks on the device, the null block included
  int block_size = 16;      // tokens per block
  int num_host_blocks = 0;  // host blocks for swapped-out sequences, and for copies of cached blocks
  double watermark = 0.01;  // fraction of the device blocks that admission leaves free for growth
  bool prefix_caching = true;
  int sliding_window = 0;  // number of last tokens that a query attends to, itself included; 0: all tokens
  int state_blocks = 0;    // blocks of one sequence's recurrent state; 0: the model has none
  int state_spacing = 64;  // fewest tokens that a checkpoint inside a prompt must save; a checkpoint costs a step
  PrefixCache::Key hash_key{};
  int hash_bits = 128;
  bool host_cache = true;  // store copies of cached blocks in free host blocks (HostCache); needs full 128-bit hashes
};

/// The block counts of BlockManagerOptions, which may change with a new worker group.
struct PoolSizes {
  int num_blocks = 0, num_host_blocks = 0, state_blocks = 0;
  bool operator==(const PoolSizes&) const = default;
};

}  // namespace quire
