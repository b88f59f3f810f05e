#pragma once

#include <cstdint>

#include "comm/base/types.h"

namespace quire {

/// How long a step took the slowest worker.
struct StepTimes {
  uint32_t compute_micros = 0;  // in all
  uint32_t swap_micros = 0;     // of those, moving blocks to and from the host
};

/// A choice that its text ended (a stop string), which only its sink could know.
struct StoppedChoice {
  RequestId request;
  int choice;

  bool operator==(const StoppedChoice&) const = default;
};

}  // namespace quire
