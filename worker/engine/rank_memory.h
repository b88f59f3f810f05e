#pragma once

#include <cstdint>

namespace quire {

/// What a rank's engine takes of its device's memory, known before it is made.
struct RankMemory {
  int64_t weight_bytes = 0;
  int64_t block_bytes = 0;     // of one KV block, all layers
  int64_t state_bytes = 0;     // of one sequence's state; 0: the model has none
  int64_t reserved_bytes = 0;  // of its device, that it leaves alone
};

}  // namespace quire
