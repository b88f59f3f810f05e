#pragma once

#include "coordinator/core/prefix_cache.h"

namespace quire {

struct BlockManagerOptions {
  int num_blocks = 0;       // on the device, the null block counted in
  int block_size = 16;      // tokens
  int num_host_blocks = 0;  // for swapped-out sequences
  double watermark = 0.01;  // share of the device blocks that admission leaves free, so that running requests can grow
  bool prefix_caching = true;
  int sliding_window = 0;  // tokens a query sees, itself counted in; 0: all
  int state_blocks = 0;    // that hold a sequence's state; 0: the model has none
  int state_spacing = 64;  // tokens of a prompt that keeping a state spares the next one at least: it costs a step
  PrefixCache::Key hash_key{};
  int hash_bits = 128;
};

/// How many blocks there are, and a state takes, as in BlockManagerOptions.
struct PoolSizes {
  int num_blocks = 0, num_host_blocks = 0, state_blocks = 0;
  bool operator==(const PoolSizes&) const = default;
};

}  // namespace quire
