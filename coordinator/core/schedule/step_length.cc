#include "coordinator/core/schedule/step_length.h"

#include <algorithm>
#include <limits>

namespace quire {

namespace {

/// The target length of a step. The length is `seconds`, or the time of `tokens` tokens without context if that time is
/// longer, so that a slow machine still computes batches.
struct Span {
  double seconds;
  int tokens;
};

/// The step length while one client is active. A step's fixed cost is far below this length, so the client loses
/// little.
constexpr Span kAlone = {0.8, 256};
/// The step length while several clients are active and wait for each other. With a tenth of a second between two
/// tokens, a reader still sees a stream. A client that was active a moment ago is likely to return, in a conversation
/// or with further small requests. Long steps would delay these requests, so steps stay short for a while after only
/// one client is left.
constexpr Span kInCompany = {0.1, 64};

/// Returns how many tokens, each after `context` earlier tokens, fit into the step length.
int TokensWithin(const Span& length, const LearnedCost& cost, int64_t context) {
  const double token = cost.TokenSeconds(static_cast<double>(context));
  if (!(token > 0)) return length.tokens;  // nothing has been measured yet
  const double seconds = std::max(length.seconds, length.tokens * cost.TokenSeconds(0));
  // A step of fewer than kFewTokens tokens would not improve the estimate of a token's time.
  return static_cast<int>(
      std::clamp<double>(seconds / token, LearnedCost::kFewTokens, std::numeric_limits<int>::max()));
}

}  // namespace

/// Returns the number of tokens of a step whose time meets the target for the time between two tokens of a stream. The
/// step has room for every decode, and Scheduler serves decodes before chunks. Prompts get the remaining time, but at
/// least a minimum of tokens. Without decodes no client waits for its next token, and no target applies.
int StepLength::TokensForTarget() const {
  const int limit = limits_.max_step_tokens;
  if (limits_.target_step_seconds <= 0) return limit;
  // The learned cost lags behind the true cost: contexts grow, and a step of few tokens takes more time per token.
  constexpr double kAimedAt = 0.8;
  const Work work = CountWork();
  if (work.decodes == 0) return limit;
  const int within = TokensWithin({kAimedAt * limits_.target_step_seconds, 0}, cost_, work.deepest_chunk);
  return std::min(limit, std::max(within, work.decodes + LearnedCost::kFewTokens));
}

int StepLength::TokensAlone() const {
  const int limit = TokensForTarget();
  if (TokensWithin(kAlone, cost_, MaxContext()) >= limit) return limit;
  const Work work = CountWork();
  return std::min<int64_t>(limit, int64_t{work.decodes} + TokensWithin(kAlone, cost_, work.deepest_chunk));
}

int64_t StepLength::WorkAlone() const { return TokensWithin(kAlone, cost_, 0); }

StepBudget StepLength::InCompany() const { return {TokensForTarget(), TokensWithin(kInCompany, cost_, 0)}; }

int StepLength::TokensInCompany() const {
  const int limit = TokensForTarget();
  if (TokensWithin(kInCompany, cost_, MaxContext()) >= limit) return limit;
  return std::min(limit, TokensWithin(kInCompany, cost_, CountWork().deepest_chunk));
}

/// Returns the most tokens that one sequence can have. If even a full step with a context of this length is short, the
/// running requests need not be examined.
int64_t StepLength::MaxContext() const { return int64_t{blocks_.num_usable()} * blocks_.block_size(); }

StepLength::Work StepLength::CountWork() const {
  Work work;
  for (const Request* request : running_.requests()) {
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
