#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/engine/engine.h"

namespace quire::sim {

/// Checks the promise that decodes are served before prompt chunks. While one client is alone, a plan contains every
/// sequence that has one token to compute, however large the prompts of older requests are. While several clients are
/// active, a client's decodes take turns only if its chunks, including those of preempted requests, have at most half
/// of the client's work. A decode that is left out because its long context makes it too much work is no failure. The
/// promise does not cover a request for which the plan has no blocks, nor the requests after it. If the workers form a
/// pipeline, the step has exactly the decodes whose turn it is (StageTurns).
class Decodes {
 public:
  explicit Decodes(const Engine& engine) : engine_(engine) {}

  /// Records that the engine is about to make a plan.
  void BeginPlan();
  /// Checks a plan that was made. `ahead`: another step is outstanding. `alone`: the rules for several clients do not
  /// apply. Throws Failure if the plan has a decode out of its turn; if it lacks a decode that it should have; or if,
  /// with several clients, it lacks a decode of a client whose chunks have more than half of that client's work.
  void Planned(const StepPlan& plan, bool ahead, bool alone) const;

 private:
  /// A sequence that had one token to compute before the plan.
  struct Ready {
    RequestId request;
    int choice;
    bool is_beam;
  };
  /// A sequence that takes turns in a pipeline, as it was before the plan.
  struct Turn {
    RequestId request;
    int choice;
    int num_pending;
    int64_t last_step;
  };
  std::set<std::pair<RequestId, int>> OutOfTurn(bool ahead) const;
  /// Returns the work of tokens after `context` others (LearnedCost::Weight).
  int64_t WorkOf(int tokens, int context) const;
  const Sequence* Find(RequestId request, int choice) const;
  bool LacksBlocks(const std::set<SlotId>& computed, bool ahead) const;
  void CheckShare(const std::string& client, int64_t left_out, const StepPlan& plan) const;

  const Engine& engine_;
  std::vector<Ready> ready_;
  std::vector<Turn> turns_;
  std::set<RequestId> running_;  // the running requests before the plan
};

}  // namespace quire::sim
