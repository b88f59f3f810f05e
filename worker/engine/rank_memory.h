#pragma once

#include <cstdint>

#include "comm/wire/working_memory.h"

namespace quire {

/// The memory that a rank's engine will take, computed before the engine exists. All members except `working` count
/// memory of the engine's device.
struct RankMemory {
  int64_t weight_bytes = 0;
  int64_t block_bytes = 0;     // bytes of one KV block, all layers
  int64_t state_bytes = 0;     // bytes of one sequence's recurrent state; 0: the model has none
  int64_t reserved_bytes = 0;  // device memory that the engine leaves free
  WorkingMemory working = {};  // what the rank takes of the host; 0 on GPUs: not known
};

}  // namespace quire
