#pragma once

#include <cstdint>

#include "comm/base/types.h"

namespace quire {

/// How long the slowest worker took for a step, in microseconds.
struct StepTimes {
  uint32_t compute_micros = 0;  // total time
  uint32_t swap_micros = 0;     // the part spent on block moves between device and host
  uint32_t guess_micros = 0;    // the part that the draft model took
};

/// A choice that its sink ended, because the text reached a stop string. A replay has no sinks, so the journal keeps
/// these records.
struct StoppedChoice {
  RequestId request;
  int choice;
  int token = 1;  // the last one delivered, counted from 1 among the step's tokens of the choice (drafts)

  bool operator==(const StoppedChoice&) const = default;
};

}  // namespace quire
