#include "coordinator/cluster/group/step_answers.h"

#include <algorithm>

#include "comm/base/error.h"
#include "comm/wire/messages.h"

namespace quire {

std::optional<Rank> StepAnswers::Step::Missing() const {
  const auto missing = std::ranges::find(answered, false);
  if (missing == answered.end()) return std::nullopt;
  return static_cast<Rank>(missing - answered.begin());
}

std::optional<Rank> StepAnswers::Step::Deviating() const {
  const uint64_t right = HashTokens(outcome.tokens);
  const auto other = std::ranges::find_if(token_hashes, [&](uint64_t hash) { return hash != right; });
  if (other == token_hashes.end()) return std::nullopt;
  return static_cast<Rank>(other - token_hashes.begin());
}

void StepAnswers::Sent(const StepPlan& plan, uint64_t plan_hash, Clock::time_point now) {
  Step& step = steps_.emplace_back();
  step.id = last_sent_ = plan.step;
  step.plan_hash = plan_hash;
  step.size = SizeOf(plan);
  step.begin = now;
  step.answered.resize(num_ranks_);
  step.token_hashes.resize(num_ranks_);
}

StepId StepAnswers::Expected(Rank rank) const {
  const auto step = std::ranges::find_if(steps_, [&](const Step& s) { return !s.answered[static_cast<size_t>(rank)]; });
  return step != steps_.end() ? step->id : last_sent_ + 1;
}

std::optional<StepId> StepAnswers::Answered(Rank rank, StepResult result) {
  const auto index = static_cast<size_t>(rank);
  const auto step = std::ranges::find_if(steps_, [&](const Step& s) { return !s.answered[index]; });
  if (step == steps_.end() || result.step != step->id || result.rank != rank || result.plan_hash != step->plan_hash)
    return std::nullopt;
  step->answered[index] = true;
  step->token_hashes[index] = result.token_hash;
  StepTimes& times = step->outcome.times;
  times.compute_micros = std::max(times.compute_micros, result.compute_micros);
  times.swap_micros = std::max(times.swap_micros, result.swap_micros);
  if (rank == 0) {
    step->outcome.tokens = std::move(result.tokens);
    step->outcome.scores = std::move(result.scores);
    step->outcome.guesses = std::move(result.guesses);
    times.guess_micros = result.guess_micros;
  }
  return step->id;
}

StepOutcome StepAnswers::Take(Clock::time_point now) {
  QUIRE_CHECK(!steps_.empty() && !steps_.front().Missing(), "a step is taken before it is answered");
  StepOutcome outcome = std::move(steps_.front().outcome);
  steps_.pop_front();
  if (!steps_.empty()) steps_.front().begin = now;
  return outcome;
}

}  // namespace quire
