// The half of Engine in which requests end without their result, and worker groups do.
#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/engine.h"

namespace quire {

namespace {

constexpr const char* kNoNumbers =
    "the model computed no numbers for this request (infinity or NaN): its weights, or a type it is served in "
    "(--dtype, --kv-cache-dtype), do not hold them";

}  // namespace

void Engine::EndWithError(Request& request, RequestError error, const std::string& message) {
  scheduler_.Drop(request);
  for (const Sequence& sequence : request.sequences) {
    if (!sequence.finished) Count(FinishReason::kAbort);
  }
  request.sink->OnError(error, message);
}

void Engine::AbortDrawn(SlotId slot, RequestError error, const std::string& message) {
  const std::optional<RequestId> id = scheduler_.RequestOf(slot);
  if (id) Abort(*id, error, message);  // else it has ended
}

void Engine::AbortBroken(const std::vector<SampledToken>& tokens, const std::vector<PromptScores>& scores) {
  for (const SampledToken& token : tokens) {
    if (token.overworked()) {
      AbortDrawn(
          token.slot, RequestError::kOverworked,
          "keeping to the request's grammar takes too much work: its texts can be read in many ways; write it so "
          "that there is one");
    } else if (token.dead_end()) {
      AbortDrawn(token.slot, RequestError::kDeadEnd,
                 "the request's grammar allows nothing after what was generated, not even the end: write it so that "
                 "every beginning can be finished");
    } else if (token.broken()) {
      AbortDrawn(token.slot, RequestError::kNoNumbers, kNoNumbers);
    }
  }
  for (const PromptScores& s : scores) {
    if (s.broken()) AbortDrawn(s.slot, RequestError::kNoNumbers, kNoNumbers);
  }
}

void Engine::ExpireOverdue(double now) {
  const bool due = (!deadlines_.empty() && deadlines_.top().seconds < now) || blocks_.pins().AnyDue(now);
  if (!due) return;
  if (observer_ != nullptr) observer_->OnExpire(now);
  blocks_.pins().Expire(now);
  for (; !deadlines_.empty() && deadlines_.top().seconds < now; deadlines_.pop()) {
    const auto it = requests_.find(deadlines_.top().request);
    if (it == requests_.end()) continue;
    Request& request = *it->second;
    // The sums of RestoreDeadlines, to the last bit: what is popped here and found not to be due is never looked at
    // again.
    const double arrival = request.arrival_seconds;
    const bool waited = request.first_scheduled_seconds < 0 && arrival + options_.max_wait_seconds < now;
    if (!waited && arrival + MaxSeconds(request) >= now) continue;
    decisions_.OnDecision({DecisionKind::kTimedOut, request.id});
    const bool own = request.limits.max_seconds > 0 && MaxSeconds(request) < options_.max_request_seconds;
    const RequestError overdue = own ? RequestError::kDeadline : RequestError::kTimedOut;
    EndWithError(request, waited ? RequestError::kNoRoom : overdue,
                 waited ? fmt::format("no room within {} s in the queue; try again later", options_.max_wait_seconds)
                        : fmt::format("not done within {} s", MaxSeconds(request)));
    Erase(request.id);
  }
}

void Engine::FailAll(const std::string& message) {
  for (const RequestId id : std::exchange(finished_, {})) Erase(id);  // of a commit that did not end
  scheduler_.Reset();
  for (auto& [id, request] : requests_) EndWithError(*request, RequestError::kWorkersLost, message);
  requests_.clear();
}

void Engine::DropAll() {
  for (const RequestId id : std::exchange(finished_, {})) Erase(id);
  scheduler_.Reset();
  for (auto& [id, request] : requests_) scheduler_.Drop(*request);
  requests_.clear();
}

void Engine::StartEpoch(EpochId epoch, const PoolSizes& pools) {
  if (observer_ != nullptr) observer_->OnEpoch(epoch, pools);
  scheduler_.Reset();
  epoch_ = epoch;
  step_ = 0;
  if (pools != blocks_.sizes()) {
    blocks_.Resize(pools);
    options_.blocks.num_blocks = pools.num_blocks;
    options_.blocks.num_host_blocks = pools.num_host_blocks;
  }
  std::vector<std::pair<RequestId, std::string>> given_up;
  for (const auto& [id, request] : requests_) {
    if (std::string reason = ReasonToGiveUp(*request); !reason.empty()) given_up.emplace_back(id, std::move(reason));
  }
  for (const auto& [id, reason] : given_up) {
    EndWithError(*requests_.at(id), RequestError::kGivenUp, reason);
    Erase(id);
  }
}

/// At the beginning of an epoch; empty: there is none.
std::string Engine::ReasonToGiveUp(const Request& request) const {
  if (options_.max_lost_epochs > 0 && request.num_lost_alone >= options_.max_lost_epochs)
    return fmt::format("the workers were lost {} times while they computed this request alone",
                       options_.max_lost_epochs);
  const int n = static_cast<int>(request.sequences.size());
  if (!scheduler_.CanEverRun(request.num_prompt_tokens(), request.limits.max_tokens, n))
    return fmt::format("the KV cache has {} blocks since the workers changed: too few for this request",
                       blocks_.num_usable());
  return "";
}

int Engine::BlocksNeeded() const {
  int64_t most = 0;
  for (const auto& [id, request] : requests_) {
    const int n = static_cast<int>(request->sequences.size());
    most = std::max(most, scheduler_.BlocksAtLongest(request->num_prompt_tokens(), request->limits.max_tokens, n));
  }
  return static_cast<int>(most) + 1;
}

}  // namespace quire
