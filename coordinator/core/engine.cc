#include "coordinator/core/engine.h"

#include <algorithm>
#include <utility>

#include "comm/error.h"

namespace quire {

Engine::Engine(const EngineOptions& options)
    : options_(options),
      blocks_(options.num_blocks, options.block_size, options.watermark),
      scheduler_(options.scheduler, blocks_) {}

std::optional<std::string> Engine::Submit(std::unique_ptr<Request> request) {
  const int prompt = request->num_prompt_tokens(), max_tokens = request->limits.max_tokens;
  const int n = static_cast<int>(request->sequences.size());
  if (prompt < 1) return "the prompt is empty";
  if (int64_t{prompt} + max_tokens > options_.max_model_len) {
    return fmt::format("the prompt has {} tokens and {} more are asked for; this model serves {} in all", prompt,
                       max_tokens, options_.max_model_len);
  }
  if (!scheduler_.CanEverRun(prompt, max_tokens, n)) {
    return fmt::format("{} x ({} + {}) tokens do not fit the KV cache of {} blocks of {} tokens (at most {} sequences)",
                       n, prompt, max_tokens, blocks_.num_usable(), blocks_.block_size(),
                       options_.scheduler.max_running);
  }
  for (Sequence& sequence : request->sequences) sequence.id = next_sequence_id_++;
  stats_.prompt_tokens += prompt;
  Request& added = *request;
  const bool is_new = requests_.emplace(added.id, std::move(request)).second;
  QUIRE_CHECK(is_new, "request id {} is in use", added.id);
  scheduler_.Add(added);
  return std::nullopt;
}

void Engine::Cancel(RequestId id) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  for (const Sequence& sequence : it->second->sequences) {
    if (!sequence.finished) Count(FinishReason::kAbort);
  }
  scheduler_.Drop(*it->second);
  requests_.erase(it);
}

std::optional<StepPlan> Engine::NextPlan(double now) {
  StepPlan plan = scheduler_.Schedule();
  if (plan.empty()) {
    QUIRE_CHECK(requests_.empty(), "{} requests and nothing to run", requests_.size());
    return std::nullopt;
  }
  plan.epoch = epoch_;
  plan.step = ++step_;
  ++stats_.steps;
  stats_.computed_tokens += static_cast<int64_t>(plan.decodes.size());
  for (const Chunk& chunk : plan.chunks) stats_.computed_tokens += chunk.count;
  for (Request* request : scheduler_.running()) {
    if (request->first_scheduled_seconds < 0) request->first_scheduled_seconds = now;
  }
  return plan;
}

bool Engine::Fits(const std::vector<SampledToken>& tokens) const {
  return scheduler_.Fits(tokens) && std::all_of(tokens.begin(), tokens.end(), [&](const SampledToken& t) {
           return t.token >= 0 && t.token < options_.vocab_size;
         });
}

void Engine::CommitStep(const std::vector<SampledToken>& tokens) {
  const auto drawn = scheduler_.Commit(tokens);
  for (const auto& [request, sequence, token] : drawn) Deliver(*request, *sequence, *token);
  for (const RequestId id : std::exchange(finished_, {})) requests_.erase(id);
}

void Engine::Deliver(Request& request, Sequence& sequence, const SampledToken& drawn) {
  ++stats_.generated_tokens;
  std::optional<FinishReason> reason = ReasonToFinish(request, sequence, drawn.token);
  const bool hidden = reason == FinishReason::kStop;  // the token that says stop is not part of the text
  if (!hidden && request.sink->OnToken({sequence.choice, drawn.token, drawn.logprob, drawn.top})) {
    reason = FinishReason::kStop;
  }
  if (!reason) return;
  Count(*reason);
  scheduler_.Finish(request, sequence, *reason);
  request.sink->OnFinish(sequence.choice, *reason);
  if (request.finished()) finished_.push_back(request.id);
}

std::optional<FinishReason> Engine::ReasonToFinish(const Request& request, const Sequence& sequence,
                                                   TokenId token) const {
  const auto& stops = request.limits.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token) != stops.end() &&
      sequence.num_generated() > request.sampling.min_tokens) {
    return FinishReason::kStop;
  }
  if (sequence.num_generated() >= request.limits.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

void Engine::Count(FinishReason reason) {
  if (reason == FinishReason::kStop) ++stats_.finished_stop;
  if (reason == FinishReason::kLength) ++stats_.finished_length;
  if (reason == FinishReason::kAbort) ++stats_.finished_abort;
}

void Engine::EndWithError(Request& request, RequestError error, const std::string& message) {
  scheduler_.Drop(request);
  for (const Sequence& sequence : request.sequences) {
    if (!sequence.finished) Count(FinishReason::kAbort);
  }
  request.sink->OnError(error, message);
}

void Engine::ExpireOverdue(double now) {
  std::erase_if(requests_, [&](const auto& item) {
    Request& request = *item.second;
    const double age = now - request.arrival_seconds;
    const bool waited = request.first_scheduled_seconds < 0 && age > options_.max_wait_seconds;
    if (!waited && age <= options_.max_request_seconds) return false;
    EndWithError(request, RequestError::kTimedOut,
                 waited ? fmt::format("no room within {} s in the queue; try again later", options_.max_wait_seconds)
                        : fmt::format("not done within {} s", options_.max_request_seconds));
    return true;
  });
}

void Engine::FailAll(const std::string& message) {
  scheduler_.Reset();
  for (auto& [id, request] : requests_) EndWithError(*request, RequestError::kWorkersLost, message);
  requests_.clear();
}

void Engine::DropAll() {
  scheduler_.Reset();
  for (auto& [id, request] : requests_) scheduler_.Drop(*request);
  requests_.clear();
}

void Engine::StartEpoch(EpochId epoch) {
  scheduler_.Reset();
  epoch_ = epoch;
  step_ = 0;
}

}  // namespace quire
