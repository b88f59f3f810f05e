#include "coordinator/core/engine/engine.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Returns the options without contradictions. Only steps planned ahead let several stages of a pipeline compute at the
/// same time. So if plan_ahead is false, num_stages becomes 1.
EngineOptions Consistent(EngineOptions options) {
  if (!options.plan_ahead) options.scheduler.num_stages = 1;
  return options;
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : options_(Consistent(options)),
      blocks_(options_.blocks),
      scheduler_(options_.scheduler, blocks_),
      repeats_(options.drafts, &answers_) {
  if (options.drafts.num_tokens > 0) set_proposer(&repeats_);
}

void Engine::set_observer(EngineObserver* observer) {
  observer_ = observer;
  decisions_.first = observer;
  scheduler_.set_decision_log(&decisions_);
}

void Engine::set_watcher(DecisionLog* watcher) {
  decisions_.second = watcher;
  scheduler_.set_decision_log(&decisions_);
}

double Engine::MaxSeconds(const Request& request) const {
  const double wish = request.limits.max_seconds;
  return wish > 0 ? std::min(wish, options_.max_request_seconds) : options_.max_request_seconds;
}

std::optional<std::string> Engine::ReasonToRefuse(const Request& request) const {
  const int prompt = request.num_prompt_tokens(), max_tokens = request.limits.max_tokens;
  const int n = static_cast<int>(request.sequences.size());
  if (prompt < 1) return "the prompt is empty";
  if (request.PoolsAllRows() && n > 1) return "a prompt is pooled for one choice";
  // Models that read whole prompts answer with pooled values. The token that is sampled after such a prompt has no
  // meaning, so it needs no position.
  const int answer = max_tokens - (options_.scheduler.whole_prompts() ? 1 : 0);
  if (int64_t{prompt} + answer > options_.max_model_len) {
    return fmt::format("the prompt has {} tokens and {} more are asked for; this model serves {} in all", prompt,
                       max_tokens, options_.max_model_len);
  }
  if (!scheduler_.CanEverRun(prompt, max_tokens, n)) {
    const int state = blocks_.states().num_blocks();
    return fmt::format(
        "{} x ({} + {}) tokens{} do not fit the KV cache of {} blocks of {} tokens (at most {} sequences)", n, prompt,
        max_tokens, state > 0 ? fmt::format(" and {} blocks of state each", state) : "", blocks_.num_usable(),
        blocks_.block_size(), options_.scheduler.max_running);
  }
  const ClientLimits& own = request.client_limits;
  if (own.max_running_seqs > 0 && n > own.max_running_seqs)
    return fmt::format("{} sequences at a time are more than the max_running_seqs of this API key, {}", n,
                       own.max_running_seqs);
  const int64_t blocks = scheduler_.BlocksAtLongest(prompt, max_tokens, n);
  if (own.max_blocks > 0 && blocks > own.max_blocks)
    return fmt::format("{} x ({} + {}) tokens take {} blocks, more than the max_blocks of this API key, {}", n, prompt,
                       max_tokens, blocks, own.max_blocks);
  return std::nullopt;
}

std::optional<std::string> Engine::Do(const command::Submit& c) {
  const std::optional<std::string> refusal = ReasonToRefuse(*c.request);
  Tell(c, {.refused = refusal.has_value()});
  if (refusal) return refusal;
  std::unique_ptr<Request> request = std::move(c.request);
  for (Sequence& sequence : request->sequences) {
    sequence.id = next_sequence_id_++;
    // Reserves room for kRoom generated tokens per sequence, which saves reallocations. The number is small, because
    // thousands of requests may wait.
    constexpr int kRoom = 64;
    const int room = request->num_prompt_tokens() + std::min(request->limits.max_tokens, kRoom);
    sequence.tokens.reserve(static_cast<size_t>(room));
    sequence.blocks.reserve(static_cast<size_t>(blocks_.BlocksFor(room)));
    if (blocks_.prefixes().enabled()) sequence.contents.hashes.reserve(static_cast<size_t>(blocks_.BlocksFor(room)));
  }
  stats_.prompt_tokens += request->num_prompt_tokens();
  Request& added = *request;
  const bool is_new = requests_.emplace(added.id, std::move(request)).second;
  QUIRE_CHECK(is_new, "request id {} is in use", added.id);
  RestoreDeadlines(added);
  if (!StaysAside(added)) scheduler_.Add(added);
  return std::nullopt;
}

void Engine::RestoreDeadlines(const Request& request) {
  deadlines_.push({request.arrival_seconds + options_.max_wait_seconds, request.id});
  deadlines_.push({request.arrival_seconds + MaxSeconds(request), request.id});
}

/// Records in the decision log how many draft tokens of an ended request were accepted, by source.
void Engine::TellDrafts(const Request& request) {
  constexpr DecisionKind kKinds[kDraftSources] = {DecisionKind::kDraftedByPrediction, DecisionKind::kDraftedFromText,
                                                  DecisionKind::kDraftedFromAnswers, DecisionKind::kDraftedByModel,
                                                  DecisionKind::kDraftedByLayer};
  for (size_t source = 0; source < kDraftSources; ++source) {
    const DraftTally& tally = request.drafted[source];
    if (tally.tokens > 0) decisions_.OnDecision({kKinds[source], request.id, 0, tally.accepted, tally.tokens});
  }
}

void Engine::Erase(RequestId id) {
  const auto it = requests_.find(id);
  stats_.ended_prompt_tokens += it->second->num_prompt_tokens();
  stats_.cached_tokens += it->second->num_cached_tokens;
  TellDrafts(*it->second);
  background_.erase(id);
  requests_.erase(it);
}

void Engine::Do(const command::Cancel& c) {
  const auto it = requests_.find(c.id);
  if (it == requests_.end()) return;
  Tell(c);
  decisions_.OnDecision({DecisionKind::kCancelled, c.id});
  for (const Sequence& sequence : it->second->sequences) {
    if (!sequence.finished) Count(FinishReason::kAbort);
  }
  LeaveScheduler(*it->second);
  Erase(c.id);
}

void Engine::Abort(RequestId id, RequestError error, const std::string& message) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  it->second->sink->OnError(error, message);
  Cancel(id);
}

const StepPlan* Engine::Do(const command::Plan& c) {
  const bool ahead = num_outstanding() > 0;
  if (num_outstanding() == (options_.plan_ahead ? options_.scheduler.most_outstanding() : 1)) return nullptr;
  if (observer_ != nullptr) observer_->BeforePlan(c.now);
  TakeUpBackground();
  blocks_.fill().SetStep(stats_.steps + 1);
  StepPlan& plan = scheduler_.Schedule();
  if (plan.empty()) {
    const bool waits = ahead || !blocks_.device_holdings().empty();
    QUIRE_CHECK(waits || AllSetAside(), "{} requests and nothing to run", requests_.size());
    if (waits) Tell(c);  // the empty plan may still have admitted a request
    return nullptr;
  }
  plan.epoch = epoch_;
  plan.step = ++step_;
  ++stats_.steps;
  stats_.computed_tokens += plan.num_tokens();
  for (Request* request : scheduler_.running()) {
    if (request->first_scheduled_seconds >= 0) continue;
    request->first_scheduled_seconds = c.now;
    request->sink->OnStart(c.now - request->arrival_seconds);
  }
  Tell(c, {.plan = &plan});
  return &plan;
}

bool Engine::Fits(const std::vector<SampledToken>& tokens) const {
  const auto known = [&](TokenId token) { return token >= 0 && token < options_.vocab_size; };
  return scheduler_.Fits(tokens) && std::ranges::all_of(tokens, [&](const SampledToken& t) {
           return known(t.token) && std::ranges::all_of(t.top, [&](const auto& top) { return known(top.first); });
         });
}

bool Engine::Fits(const std::vector<Draft>& guesses) const {
  const auto is_known = [this](TokenId token) { return 0 <= token && token < options_.vocab_size; };
  return scheduler_.Fits(guesses) &&
         std::ranges::all_of(guesses, [&](const Draft& guess) { return std::ranges::all_of(guess.tokens, is_known); });
}

bool Engine::Fits(const std::vector<PromptScores>& scores) const {
  const auto known = [&](const auto& top) { return top.first >= 0 && top.first < options_.vocab_size; };
  return scheduler_.Fits(scores) &&
         std::ranges::all_of(scores, [&](const PromptScores& s) { return std::ranges::all_of(s.top, known); });
}

void Engine::Do(const command::SetSwapSpeed& c) {
  Tell(c);
  scheduler_.cost().SetBlockSeconds(c.seconds_per_block);
}

void Engine::Do(const command::FlushCache& c) {
  Tell(c);
  blocks_.pins().Break();
  blocks_.prefixes().Flush();
  answers_.Forget();
}

void Engine::Do(const command::ChangeOptions& c) {
  Tell(c);
  options_.max_wait_seconds = c.max_wait_seconds;
  options_.max_request_seconds = c.max_request_seconds;
  options_.scheduler.target_step_seconds = c.target_step_seconds;
  scheduler_.SetTarget(c.target_step_seconds);
  const bool caches = c.prefix_caching && !options_.scheduler.whole_prompts();
  options_.blocks.prefix_caching = caches;
  if (!caches) blocks_.pins().Break();
  blocks_.prefixes().Enable(caches);
  for (const auto& [id, request] : requests_) RestoreDeadlines(*request);
}

std::optional<uint64_t> Engine::Do(const command::PinPrefix& c) {
  Tell(c);
  const PrefixPin* pin = blocks_.pins().Pin(blocks_.prefixes().Find(c.salt, c.tokens), c.expires_seconds);
  if (pin == nullptr) return std::nullopt;
  return pin->id;
}

bool Engine::Do(const command::Unpin& c) {
  Tell(c);
  return blocks_.pins().Unpin(c.pin);
}

}  // namespace quire
