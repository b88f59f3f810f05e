// Engine's functions that take a step's result, deliver tokens to clients and end answers.
#include <algorithm>
#include <span>

#include "coordinator/core/engine/engine.h"

namespace quire {

void Engine::Do(const command::Commit& c) {
  ObserveTimes(c);
  AbortBroken(c.tokens, c.scores);
  DeliverScores(c.scores);
  const auto drawn = scheduler_.Commit(c.tokens, c.guesses);
  for (const Scheduler::Drawn& each : drawn) {
    if (each.request->beams == nullptr) {
      Deliver(each);
      continue;
    }
    CountGenerated(*each.request, 1);
    if (each.sequence->choice == 0) AdvanceBeams(*each.request, drawn);
  }
  for (const RequestId id : finished_) Erase(id);
  finished_.clear();
  Tell(c, {.stopped = stopped_});
  stopped_.clear();
}

/// Lets the scheduler learn from the step's times. The measured time includes the time of the draft model, which
/// computes after the step. That time is subtracted, because the step's tokens do not cause it.
void Engine::ObserveTimes(const command::Commit& c) {
  const auto [compute, swap, guess] = c.times;
  if (compute == 0) return;
  scheduler_.ObserveStep((compute - std::min(guess, compute)) * 1e-6, swap * 1e-6);
  int guessed = 0;
  for (const Draft& each : c.guesses) guessed += static_cast<int>(each.tokens.size());
  if (guess > 0) scheduler_.ObserveGuesses(guessed, guess * 1e-6);
}

void Engine::DeliverScores(const std::vector<PromptScores>& scores) {
  if (scores.empty()) return;
  size_t next = 0;
  for (const StepMember& m : scheduler_.outstanding().at(0).members) {
    if (m.scores.count == 0) continue;
    if (m.request != nullptr) m.request->sink->OnPromptScores(scores[next], m.sequence->tokens);
    ++next;
  }
}

/// Delivers the tokens in order until one of them ends the choice, and drops the later tokens. Dropped draft tokens
/// count as refused.
void Engine::Deliver(const Scheduler::Drawn& drawn) {
  Request& request = *drawn.request;
  Sequence& sequence = *drawn.sequence;
  request.GotToken();
  const int before = sequence.num_generated() - static_cast<int>(drawn.tokens.size());
  int num_generated = before;
  const size_t num_stopped = stopped_.size();
  std::optional<FinishReason> reason;
  for (auto token = drawn.tokens.begin(); token != drawn.tokens.end() && !reason; ++token)
    reason = Deliver(request, sequence.choice, ++num_generated, *token);
  if (stopped_.size() > num_stopped) stopped_.back().token = num_generated - before;
  CountGenerated(request, num_generated - before);
  if (drawn.num_drafts > 0) CountDrafts(drawn, num_generated - before);
  if (!reason) return;
  sequence.tokens.resize(static_cast<size_t>(sequence.num_prompt_tokens + num_generated));
  Count(*reason);
  if (options_.drafts.from_answers) Remember(request, sequence);
  scheduler_.Finish(request, sequence, *reason);
  request.sink->OnFinish(sequence.choice, *reason);
  if (request.finished()) finished_.push_back(request.id);
}

/// Counts `tokens` delivered tokens in the statistics and in the client's account.
void Engine::CountGenerated(Request& request, int tokens) {
  stats_.generated_tokens += tokens;
  WaitingQueue::ChargeGenerated(request, tokens);
}

/// Counts the accepted and the refused tokens of a verified draft. A draft token that equals the sampled one is
/// accepted if it was delivered. `num_delivered`: the number of tokens that this step delivered to the client, which
/// may include the token sampled after the draft.
void Engine::CountDrafts(const Scheduler::Drawn& drawn, int num_delivered) {
  const int right = static_cast<int>(drawn.tokens.size()) - 1;
  const int accepted = std::min(right, num_delivered);
  const auto source = static_cast<size_t>(drawn.source);
  stats_.drafts[source].Add(drawn.num_drafts, accepted);
  DraftTally& tally = drawn.request->drafted[source];
  tally.tokens += drawn.num_drafts;
  tally.accepted += accepted;
  drawn.request->sink->OnDrafts(drawn.sequence->choice, accepted, drawn.num_drafts - accepted);
}

/// Stores the tokens of an ended answer, so that drafts for later answers can be taken from them.
void Engine::Remember(const Request& request, const Sequence& sequence) {
  const auto prompt = static_cast<size_t>(sequence.num_prompt_tokens);
  answers_.Add(request, std::span<const TokenId>(sequence.tokens).subspan(prompt));
}

/// Delivers the num_generated-th generated token of a choice. A stop token goes to OnHiddenStop instead of OnToken.
/// Returns the finish reason if the token ends the choice, and otherwise nothing.
std::optional<FinishReason> Engine::Deliver(Request& request, int choice, int num_generated,
                                            const SampledToken& drawn) {
  const bool begins = choice == 0 && num_generated == 1;
  if (begins && request.num_cached_tokens > 0) request.sink->OnCached(request.num_cached_tokens);
  std::optional<FinishReason> reason = ReasonToFinish(request, num_generated, drawn.token);
  const bool hidden = reason == FinishReason::kStop;  // the stop token is not part of the text
  if (hidden) request.sink->OnHiddenStop(choice, drawn.logprob);
  if (!hidden && request.sink->OnToken({choice, drawn.token, drawn.logprob, drawn.top, drawn.pooled})) {
    reason = FinishReason::kStop;
    stopped_.push_back({request.id, choice});
  }
  return reason;
}

void Engine::AdvanceBeams(Request& request, std::span<const Scheduler::Drawn> drawn) {
  request.GotToken();
  std::vector<const BeamSearch::Candidates*> candidates(request.sequences.size(), nullptr);
  for (const auto& d : drawn) {
    if (d.request == &request) candidates[static_cast<size_t>(d.sequence->choice)] = &d.tokens.front().top;
  }
  const auto steps = request.beams->Advance(candidates);
  if (!steps.empty()) return scheduler_.Branch(request, steps);
  for (Sequence& sequence : request.sequences) scheduler_.Finish(request, sequence, FinishReason::kStop);
  DeliverBeams(request);
  finished_.push_back(request.id);
}

void Engine::DeliverBeams(Request& request) {
  if (request.num_cached_tokens > 0) request.sink->OnCached(request.num_cached_tokens);
  const std::vector<Beam> beams = request.beams->Result();
  for (size_t choice = 0; choice < beams.size(); ++choice) {
    const Beam& beam = beams[choice];
    FinishReason reason = beam.stopped ? FinishReason::kStop : FinishReason::kLength;
    const size_t count = beam.tokens.size() - (beam.stopped ? 1 : 0);
    for (size_t i = 0; i < count; ++i) {
      const TokenEvent token{static_cast<int>(choice), beam.tokens[i], beam.logprobs[i], {}, {}, i + 1 < count};
      if (!request.sink->OnToken(token)) continue;
      reason = FinishReason::kStop;
      break;
    }
    Count(reason);
    request.sink->OnFinish(static_cast<int>(choice), reason);
  }
}

std::optional<FinishReason> Engine::ReasonToFinish(const Request& request, int num_generated, TokenId token) {
  const auto& stops = request.limits.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token) != stops.end() && num_generated > request.sampling.min_tokens) {
    return FinishReason::kStop;
  }
  if (num_generated >= request.limits.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

void Engine::Count(FinishReason reason) {
  if (reason == FinishReason::kStop) ++stats_.finished_stop;
  if (reason == FinishReason::kLength) ++stats_.finished_length;
  if (reason == FinishReason::kAbort) ++stats_.finished_abort;
}

}  // namespace quire
