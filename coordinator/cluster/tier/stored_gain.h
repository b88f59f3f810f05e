#pragma once

#include <vector>

#include "coordinator/kv_disk/stored_block.h"

namespace quire {

/// The parts of a prompt that the store has beyond the cached blocks. In models with recurrent states, these are the
/// blocks before the last stored state, and that state.
struct StoredGain {
  int cached = 0;                  // number of leading blocks that the workers have cached
  int usable = 0;                  // number of cached blocks after which a request could begin
  int from_host = 0;               // leading blocks after which a request could begin with host copies (HostCache)
  int end = 0;                     // leading blocks after which a request could begin if all stored parts came
  std::vector<BlockHash> used;     // the cached blocks
  std::vector<StoredName> stored;  // the stored blocks after the cached blocks
  std::vector<StoredName> state;   // the state after `end` blocks; empty in models without states
};

}  // namespace quire
