#pragma once

#include "comm/topology/preemption_mode.h"

namespace quire {

struct SchedulerLimits {
  int max_step_tokens = 512;  // most tokens of a step; at least max_running
  int max_running = 256;      // most sequences that run together
  PreemptionMode preemption = PreemptionMode::kAuto;
  int lookahead_tokens = 16;       // further tokens of each running sequence for which admission leaves room
  int suspect_after = 2;           // a request runs alone after this many lost groups in a row, until it gets a token
  double target_step_seconds = 0;  // see LiveOptions
  /// True when the model reads a prompt as a whole: a step never has a part of a prompt, and max_step_tokens is at
  /// least the longest prompt.
  bool whole_prompts = false;
  int num_stages = 1;  // stages of the workers' pipeline

  /// Returns how many steps may be outstanding where steps are planned ahead: one in each stage and one that waits, so
  /// that no stage waits for the coordinator.
  int most_outstanding() const { return num_stages + 1; }
};

}  // namespace quire
