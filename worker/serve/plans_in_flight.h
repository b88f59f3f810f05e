#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/wire/messages.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// An accepted plan whose step has not begun.
struct AcceptedPlan {
  StepPlan plan;
  std::vector<BatchMember> batch;
  uint64_t hash;          // hash of the plan's frame
  bool computes_pending;  // the step computes a token that an earlier step samples
};

/// A plan whose step has begun but not ended.
struct PlanInFlight {
  StepResult result;
  std::vector<PendingDraw> draws;
  std::vector<GuessOrder> guesses;
  std::chrono::steady_clock::time_point begin;
};

}  // namespace quire
