// Engine's functions that end all requests, or continue them with a new worker group and compute how many blocks they
// need.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/core/engine/engine.h"

namespace quire {

void Engine::FailAll(const std::string& message) {
  for (const RequestId id : std::exchange(finished_, {})) Erase(id);  // left over from an interrupted commit
  scheduler_.Reset();
  for (auto& [id, request] : requests_) EndWithError(*request, RequestError::kWorkersLost, message);
  requests_.clear();
  background_.clear();
}

void Engine::DropAll() {
  for (const RequestId id : std::exchange(finished_, {})) Erase(id);
  scheduler_.Reset();
  for (auto& [id, request] : requests_) LeaveScheduler(*request);
  requests_.clear();
  background_.clear();
}

void Engine::Do(const command::StartEpoch& c) {
  Tell(c);
  scheduler_.Reset();
  epoch_ = c.epoch;
  step_ = 0;
  options_.scheduler.num_stages = options_.plan_ahead ? c.num_stages : 1;
  scheduler_.SetStages(options_.scheduler.num_stages);
  if (c.pools != blocks_.sizes()) {
    blocks_.Resize(c.pools);
    options_.blocks.num_blocks = c.pools.num_blocks;
    options_.blocks.num_host_blocks = c.pools.num_host_blocks;
    options_.blocks.state_blocks = c.pools.state_blocks;
  }
  std::vector<std::pair<RequestId, std::string>> given_up;
  for (const auto& [id, request] : requests_) {
    if (std::string reason = ReasonToGiveUp(*request); !reason.empty()) given_up.emplace_back(id, std::move(reason));
  }
  for (const auto& [id, reason] : given_up) {
    EndWithError(*requests_.at(id), RequestError::kGivenUp, reason);
    Erase(id);
  }
  adapters_.clear();
  SetAsideWithoutAdapter();
}

/// Returns the reason why the request cannot continue at the start of an epoch; empty if it can.
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

int Engine::BlocksNeeded(int state_blocks) const {
  const int more = state_blocks - blocks_.states().num_blocks();
  int64_t most = 0;
  for (const auto& [id, request] : requests_) {
    const int n = static_cast<int>(request->sequences.size());
    most = std::max(most, scheduler_.BlocksAtLongest(request->num_prompt_tokens(), request->limits.max_tokens, n) +
                              int64_t{n} * more);
  }
  return static_cast<int>(most) + 1;
}

}  // namespace quire
