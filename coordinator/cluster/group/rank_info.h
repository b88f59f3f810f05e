#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/wire/whole_part.h"
#include "comm/wire/working_memory.h"

namespace quire {

/// The coordinator's record of one rank, for the admin port and for error messages.
struct RankInfo {
  std::string host, isa;  // isa: the instruction set or device of the rank, such as "avx2" or "NVIDIA H200"
  int pid = 0;
  int devices = 0;             // GPUs of the host
  std::string device_problem;  // the reason why the rank has no devices
  int processors = 0;          // processors that the rank's threads may keep busy; 0: unknown
  int64_t memory_bytes = 0;    // bytes that the host, or a control group there, allows all workers together; 0: unknown
  std::string memory_limit;    // the source of memory_bytes, such as a control group's name
  int64_t weight_bytes = 0, bytes_per_block = 0, available_bytes = 0;
  int64_t bytes_per_state = 0;  // bytes of one sequence's recurrent state; 0: the model has none
  WorkingMemory working;        // what the rank takes of its host beside weights and blocks
  WholePart whole_block, whole_state;
  int load_millis = 0;
  StepId last_step = 0;
  uint32_t compute_micros = 0;                      // computing time of the rank's last step
  std::chrono::steady_clock::time_point last_beat;  // last heartbeat; at first the time of the assignment
  bool beats = false;                               // a heartbeat has arrived since the assignment
  std::chrono::microseconds late{0};                // longest recent delay of thread wake-ups on the rank's host
  std::chrono::microseconds starved{0};             // time since its start that its computing thread waited for a core
  std::chrono::microseconds starved_before{0};      // value of `starved` when the awaited step began
  /// Set while the rank's heartbeats say that it is idle although it owes an answer: the step that it must answer next,
  /// and the value of `starved` and the time at the first of these heartbeats.
  StepId idle_before = 0;
  std::chrono::microseconds starved_at_idle{0};
  std::optional<std::chrono::steady_clock::time_point> idle_since;
};

}  // namespace quire
