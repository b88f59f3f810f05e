#pragma once

#include <cstdint>

#include "comm/topology/preemption_mode.h"
#include "coordinator/core/schedule/learned_cost.h"

namespace quire {

struct SchedulerLimits {
  int max_step_tokens = 512;  // most tokens of a step; at least max_running
  int max_running = 256;      // most sequences that run together
  PreemptionMode preemption = PreemptionMode::kAuto;
  int lookahead_tokens = 16;       // further tokens of each running sequence for which admission leaves room
  int suspect_after = 2;           // a request runs alone after this many lost groups in a row, until it gets a token
  double target_step_seconds = 0;  // see LiveOptions
  int short_context = LearnedCost::kShortContext;  // tokens after fewer others count as tokens without context
  /// For a model that reads prompts as a whole: the number of stages of a prompt's pass (Slice). A step computes a
  /// prompt whole, or one slice of its pass. 0: the model reads prompts in chunks of tokens.
  int pass_stages = 0;
  int64_t max_kept_rows = 0;  // most tokens of the prompts whose passes have begun and not ended (MostKeptRows)
  int num_stages = 1;         // stages of the workers' pipeline

  bool whole_prompts() const { return pass_stages > 0; }
  /// Returns how many steps may be outstanding where steps are planned ahead: one in each stage and one that waits, so
  /// that no stage waits for the coordinator.
  int most_outstanding() const { return num_stages + 1; }
};

}  // namespace quire
