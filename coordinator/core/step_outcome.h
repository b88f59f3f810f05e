#pragma once

#include <cstdint>

#include "comm/base/types.h"

namespace quire {

/// The time that the slowest worker took for each part of a step, in microseconds.
struct StepTimes {
  uint32_t compute_micros = 0;  // total time
  uint32_t swap_micros = 0;     // part of compute_micros: block moves between device and host
  uint32_t guess_micros = 0;    // part of compute_micros: the draft model, after the step's other work
};

/// A choice that its sink ended, because the text contained a stop string. A replay has no sinks, so the journal stores
/// these records.
struct StoppedChoice {
  RequestId request;
  int choice;
  int token = 1;  // number of the last delivered token among the step's tokens of the choice, counted from 1

  bool operator==(const StoppedChoice&) const = default;
};

}  // namespace quire
