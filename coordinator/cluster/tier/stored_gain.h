#pragma once

#include <vector>

#include "coordinator/kv_disk/stored_block.h"

namespace quire {

/// The stored parts of a prompt beyond the cache. With states, blocks come up to a stored state, and then the state.
struct StoredGain {
  int cached = 0;                  // leading blocks that are cached here
  int usable = 0;                  // those that a request could begin after
  int end = 0;                     // leading blocks that a request could begin after if all of this came
  std::vector<BlockHash> used;     // the cached blocks
  std::vector<StoredName> stored;  // the blocks after them
  std::vector<StoredName> state;   // the state after `end` blocks; none in models without states
};

}  // namespace quire
