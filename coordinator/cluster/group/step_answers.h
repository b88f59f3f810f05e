#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/cluster/group/patience.h"
#include "coordinator/core/engine/engine_observer.h"

namespace quire {

struct StepOutcome {
  std::vector<SampledToken> tokens;  // sampled by rank 0; the other ranks' hashes must match
  std::vector<PromptScores> scores;  // computed by rank 0
  std::vector<Draft> guesses;        // made by rank 0's draft model
  StepTimes times;                   // the maximum over all ranks
};

/// The plans that were sent to every rank, the oldest first, and the answers to them. A rank runs plans in order and
/// answers each of them, so its next answer must be for the oldest plan that it has not answered.
class StepAnswers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Step {
    StepId id = 0;
    uint64_t plan_hash = 0;
    StepSize size;
    Clock::time_point begin;             // when the plan was sent and the earlier step was answered
    std::vector<bool> answered;          // indexed by rank
    std::vector<uint64_t> token_hashes;  // indexed by rank
    StepOutcome outcome;

    /// Returns the first rank whose answer is missing; nullopt when all have answered.
    std::optional<Rank> Missing() const;
    /// Returns the first rank that has sampled other tokens than rank 0; nullopt when there is none. Requires all
    /// answers.
    std::optional<Rank> Deviating() const;
  };

  explicit StepAnswers(size_t num_ranks) : num_ranks_(num_ranks) {}

  bool empty() const { return steps_.empty(); }
  const Step& oldest() const { return steps_.front(); }
  StepId last_sent() const { return last_sent_; }

  void Sent(const StepPlan& plan, uint64_t plan_hash, Clock::time_point now);
  /// Records an answer and returns its step. Returns nullopt, and changes nothing, if the answer is not for the plan
  /// that the rank must answer next.
  std::optional<StepId> Answered(Rank rank, StepResult result);
  /// Returns the step that the rank must answer next.
  StepId Expected(Rank rank) const;
  /// Removes the oldest step, which all ranks have answered, and returns its outcome. The next step begins at `now`.
  StepOutcome Take(Clock::time_point now);

 private:
  size_t num_ranks_;
  StepId last_sent_ = 0;
  std::deque<Step> steps_;
};

}  // namespace quire
