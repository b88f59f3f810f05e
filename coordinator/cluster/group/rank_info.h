#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// What is known of one rank, for the admin endpoint and for error messages.
struct RankInfo {
  std::string host, isa;  // what it computes on: "avx2", "NVIDIA H200"
  int pid = 0;
  int devices = 0;             // GPUs of the host
  std::string device_problem;  // why there are none
  int processors = 0;          // that its threads may keep busy there; 0: not known
  int64_t memory_bytes = 0;    // that its host, or a control group there, lets workers hold in all; 0: not known
  std::string memory_limit;    // whose limit that is
  int64_t weight_bytes = 0, bytes_per_block = 0, available_bytes = 0;
  int64_t bytes_per_state = 0;  // of one sequence; 0: the model has none
  int load_millis = 0;
  StepId last_step = 0;
  uint32_t compute_micros = 0;  // of its last step
  std::chrono::steady_clock::time_point last_beat;
  std::chrono::microseconds late{0};            // how late its host woke its threads lately, at most
  std::chrono::microseconds starved{0};         // how long its computing thread has waited for a core since it began
  std::chrono::microseconds starved_before{0};  // of that, until the step began that is awaited
  /// The step it must answer next, and since when it says that it has nothing to do for it.
  StepId idle_before = 0;
  std::optional<std::chrono::steady_clock::time_point> idle_since;
};

}  // namespace quire
