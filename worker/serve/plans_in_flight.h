#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/wire/messages.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// A plan that was accepted and whose step has not begun.
struct AcceptedPlan {
  StepPlan plan;
  std::vector<BatchMember> batch;
  uint64_t hash;          // of the plan's frame
  bool computes_pending;  // the step computes a token that an earlier step draws
};

/// A plan whose step has begun and is not finished.
struct PlanInFlight {
  StepResult result;
  std::vector<PendingDraw> draws;
  std::vector<GuessOrder> guesses;
  std::chrono::steady_clock::time_point begin;
};

}  // namespace quire
