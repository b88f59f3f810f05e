// How many tokens a step may have. Whoever comes waits for the steps that are
// outstanding, and then for the steps that compute its prompt: both are short enough only if every step is.
#include <algorithm>
#include <limits>

#include "coordinator/core/scheduler.h"

namespace quire {

namespace {

/// A step lasts so many seconds, or as long as so many tokens without a context take where these take longer, so that
/// a slow machine still computes batches.
struct StepLength {
  double seconds;
  int tokens;
};

/// One client alone loses next to nothing: what every step costs, however many tokens it has, is far less than this.
constexpr StepLength kAlone = {0.8, 256};
/// All clients wait for each other's work: a tenth of a second between two tokens still reads as a stream. Who was
/// there a moment ago comes again, in a conversation or with one small request after the other, and would find two long
/// steps before each of them: whoever is alone after it keeps to such steps for a while.
constexpr StepLength kInCompany = {0.1, 64};

/// Tokens that may be computed behind a context of so many.
int TokensWithin(const StepLength& length, const LearnedCost& cost, int64_t context) {
  const double token = cost.TokenSeconds(static_cast<double>(context));
  if (!(token > 0)) return length.tokens;  // nothing was measured
  const double seconds = std::max(length.seconds, length.tokens * cost.TokenSeconds(0));
  // So few tokens would teach nothing about the cost of the next step.
  return static_cast<int>(
      std::clamp<double>(seconds / token, LearnedCost::kFewTokens, std::numeric_limits<int>::max()));
}

}  // namespace

/// Tokens of a step by the target, which is one between two tokens of a stream: what is decoded has its place in every
/// step, and prompts the time that is left, but a few tokens in any case. Without decodes nobody waits for the next
/// token.
int Scheduler::TokensForTarget() const {
  const int limit = limits_.max_step_tokens;
  if (limits_.target_step_seconds <= 0) return limit;
  // What is learned lags behind what comes: contexts grow, and a step of few tokens costs more for each.
  constexpr double kAimedAt = 0.8;
  const StepWork work = CountWork();
  if (work.decodes == 0) return limit;
  const int within = TokensWithin({kAimedAt * limits_.target_step_seconds, 0}, cost_, work.deepest_chunk);
  return std::min(limit, std::max(within, work.decodes + LearnedCost::kFewTokens));
}

/// Tokens of a step while one client is alone: its decodes, and as much of its prompts as a step has time for.
int Scheduler::TokensAlone() const {
  const int limit = TokensForTarget();
  if (TokensWithin(kAlone, cost_, MaxContext()) >= limit) return limit;
  const StepWork work = CountWork();
  return std::min<int64_t>(limit, int64_t{work.decodes} + TokensWithin(kAlone, cost_, work.deepest_chunk));
}

/// Tokens of a step while several clients are active, and for a while after: decodes are among them, and take turns.
int Scheduler::TokensInCompany() const {
  const int limit = TokensForTarget();
  if (TokensWithin(kInCompany, cost_, MaxContext()) >= limit) return limit;
  return std::min(limit, TokensWithin(kInCompany, cost_, CountWork().deepest_chunk));
}

/// Tokens that one sequence can have at most: where even behind so many a whole step is short, nobody has to look at
/// what runs.
int64_t Scheduler::MaxContext() const { return int64_t{blocks_.num_usable()} * blocks_.block_size(); }

Scheduler::StepWork Scheduler::CountWork() const {
  StepWork work;
  for (const Request* request : running_) {
    if (const Sequence* leader = request->LeaderAtWork()) {
      work.deepest_chunk = std::max(work.deepest_chunk, leader->num_planned());
      continue;
    }
    for (const Sequence& sequence : request->sequences) {
      const int tokens = request->TokensToCompute(sequence);
      work.decodes += tokens == 1;
      if (tokens > 1) work.deepest_chunk = std::max(work.deepest_chunk, sequence.num_planned());
    }
  }
  return work;
}

}  // namespace quire
