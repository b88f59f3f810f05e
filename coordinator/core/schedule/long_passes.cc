#include "coordinator/core/schedule/long_passes.h"

#include <algorithm>
#include <cmath>

namespace quire {

namespace {

int TokensToCompute(const Request& request) { return request.TokensToCompute(request.sequences.front()); }

}  // namespace

int64_t LongPasses::KeptRows() const {
  int64_t rows = 0;
  for (const Request* request : running_.requests()) rows += request->InPass() ? request->num_prompt_tokens() : 0;
  return rows;
}

bool LongPasses::MayBegin(const Request& request) const {
  int64_t rows = request.num_prompt_tokens(), passes = 0;
  int blocks = blocks_.BlocksFor(rows);
  for (const Request* other : running_.requests()) {
    if (!other->InPass()) continue;
    if (other->account == request.account) return false;
    ++passes;
    rows += other->num_prompt_tokens();
    blocks += blocks_.BlocksFor(other->num_prompt_tokens());
  }
  return passes == 0 || (rows <= limits_.max_kept_rows && 2 * (passes + 1) <= limits_.max_running &&
                         blocks <= blocks_.num_usable() / 4 * 3);
}

LongPasses::Fit LongPasses::FitOf(const Request& request, const StepDraft& draft) const {
  if (!limits_.whole_prompts() || TokensToCompute(request) <= draft.budget) return Fit::kFits;
  if (!MayBegin(request)) return Fit::kWaits;
  return draft.admitted ? Fit::kNextStep : Fit::kFits;
}

bool LongPasses::LetOvertake(ClientAccount& client, const StepDraft& draft) {
  const auto fits = [&](const Request* request) { return TokensToCompute(*request) <= draft.budget; };
  client.use.picked = nullptr;
  const auto preempted = std::ranges::find_if(client.preempted, fits);
  if (preempted != client.preempted.end()) {
    client.use.picked = *preempted;
  } else if (const auto waiting = std::ranges::find_if(client.waiting, fits); waiting != client.waiting.end()) {
    client.use.picked = *waiting;
  }
  return client.use.picked != nullptr;
}

/// Returns the fewest tokens of a slice that is not the last of its pass. Shorter slices would take more time per
/// token, because each reads the weights of its layers.
int LongPasses::LeastTokens(const StepDraft& draft) { return std::clamp(draft.most_tokens / 4, 1, 16); }

/// True when the client waits with a prompt that fits the step's budget as a whole, or with a next request whose pass
/// may begin.
bool LongPasses::MayTakePart(const ClientAccount& client, const StepDraft& draft) const {
  if (!client.waits()) return false;
  const auto fits = [&](const Request* request) { return TokensToCompute(*request) <= draft.budget; };
  return MayBegin(client.head()) || std::ranges::any_of(client.preempted, fits) ||
         std::ranges::any_of(client.waiting, fits);
}

/// Gives every pass, and every client that waits for a part of the step, the same part of the step's tokens. Clients
/// whose prompts wait for other passes to end get none.
void LongPasses::Share(StepDraft& draft) const {
  const auto works = [](const Request* request) { return TokensToCompute(*request) > 0; };
  draft.num_passes = static_cast<int>(std::ranges::count_if(running_.requests(), works));
  draft.pass_tokens = draft.budget;
  const auto takes_part = [&](const auto& each) { return MayTakePart(each.second, draft); };
  const auto clients = std::ranges::count_if(queue_.clients(), takes_part);
  if (clients > 0) {
    const int64_t even = int64_t{draft.budget} * draft.num_passes / (draft.num_passes + clients);
    const int least = LeastTokens(draft);
    draft.pass_tokens = static_cast<int>(std::max<int64_t>(std::min<int64_t>(even, draft.budget - least), least));
  }
  const auto last_step = [](const Request* request) { return request->sequences.front().last_step; };
  std::ranges::stable_sort(draft.order, {}, last_step);
}

Allowance LongPasses::AllowanceOf(const StepDraft& draft) const {
  const int even = draft.pass_tokens / std::max(1, draft.num_passes);
  return {0, std::min(draft.budget, std::max(even, LeastTokens(draft)))};
}

/// Returns the time of a token of a prompt of `prompt_tokens` tokens, relative to a token of a short prompt; at least
/// 1.
double LongPasses::CostOfToken(int prompt_tokens) const {
  const double of_short = cost_.TokenSeconds(0), of_this = cost_.TokenSeconds(0.5 * (prompt_tokens - 1));
  return of_short > 0 ? std::max(1.0, of_this / of_short) : 1.0;
}

GrowTarget LongPasses::NextSlice(Request& request, int tokens, const StepDraft& draft) const {
  Sequence& sequence = request.sequences.front();
  if (sequence.num_planned() > 0 || (!sequence.in_pass() && !MayBegin(request))) return {&sequence, 0};
  const int length = sequence.num_prompt_tokens;
  Slice slice{0, sequence.num_passed, 0, length, limits_.pass_stages};
  const double token_cost = CostOfToken(length);
  const double units = std::max(tokens, LeastTokens(draft)) * (limits_.pass_stages / token_cost);
  const int64_t left = slice.whole() - slice.begin;
  slice.count = static_cast<int>(std::clamp<double>(units, 1, static_cast<double>(left)));
  // The results of a step travel in one frame, and a result may have values for each token. Therefore max_step_tokens
  // bounds the tokens of the prompts that a step completes, if it completes more than one.
  const bool crowded = draft.answered_tokens > 0 && draft.answered_tokens + length > limits_.max_step_tokens;
  if (slice.completes() && crowded && --slice.count == 0) return {&sequence, 0};
  return {&sequence, length, 0, slice, std::max(1, static_cast<int>(std::ceil(slice.equivalent() * token_cost)))};
}

}  // namespace quire
