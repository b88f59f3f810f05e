#pragma once

#include <cstdint>

namespace quire {

/// How long a step took the slowest worker.
struct StepTimes {
  uint32_t compute_micros = 0;  // in all
  uint32_t swap_micros = 0;     // of those, moving blocks to and from the host
};

}  // namespace quire
