#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/engine_observer.h"

namespace quire {

struct StepOutcome {
  std::vector<SampledToken> tokens;  // rank 0's
  std::vector<PromptScores> scores;  // likewise
  StepTimes times;                   // of the slowest rank
};

/// Plans that were sent to every rank, oldest first, and the answers that came back. A rank runs plans in order and
/// answers each, so an answer is for the oldest plan that this rank has not answered, or it is wrong.
class StepAnswers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Step {
    StepId id = 0;
    uint64_t plan_hash = 0;
    int num_tokens = 0;                  // that it computes
    Clock::time_point begin;             // sent, and the one before it answered: ranks could begin
    std::vector<bool> answered;          // by rank
    std::vector<uint64_t> token_hashes;  // by rank
    StepOutcome outcome;

    /// A rank that has not answered.
    std::optional<Rank> Missing() const;
    /// A rank that drew other tokens than rank 0, in a step that misses no answer.
    std::optional<Rank> Deviating() const;
  };

  explicit StepAnswers(size_t num_ranks) : num_ranks_(num_ranks) {}

  bool empty() const { return steps_.empty(); }
  const Step& oldest() const { return steps_.front(); }
  StepId last_sent() const { return last_sent_; }

  void Sent(const StepPlan& plan, uint64_t plan_hash, Clock::time_point now);
  /// Which step the rank answered; nothing, and nothing is changed, when that is not what it had to answer.
  std::optional<StepId> Answered(Rank rank, StepResult result);
  /// The step that the rank must answer next.
  StepId Expected(Rank rank) const;
  /// Takes out the oldest step, which is not missing any answer; the next one begins.
  StepOutcome Take(Clock::time_point now);

 private:
  size_t num_ranks_;
  StepId last_sent_ = 0;
  std::deque<Step> steps_;
};

}  // namespace quire
