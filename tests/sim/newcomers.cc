#include "tests/sim/newcomers.h"

#include <algorithm>

#include "comm/base/error.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

/// True when the promise covers the request. There must be at most max_running clients, and the prompt must fit into
/// one client's equal share of the usable blocks and of the shortest step's tokens. From the step's tokens, one is
/// subtracted for each beam of running requests, because beams always get their tokens in the same step, and one for
/// the most senior request. The usable blocks exclude the watermark, and the blocks of requests in a pass over a whole
/// prompt, which hold them until the pass ends. No block may be pinned, or on its way to or from a store.
bool Newcomers::IsPromised(const Wait& wait, int num_clients) const {
  constexpr int kShortestStep = 64;
  const EngineOptions& options = engine_.options();
  const BlockManager& blocks = engine_.blocks();
  const int step = std::min(kShortestStep, options.scheduler.max_step_tokens);
  int beams = 0, of_passes = 0;
  for (const Request* request : engine_.scheduler().running()) {
    beams += request->beams != nullptr ? static_cast<int>(request->sequences.size()) : 0;
    of_passes += request->InPass() ? static_cast<int>(request->sequences.front().blocks.size()) : 0;
  }
  const int usable = blocks.num_usable() - static_cast<int>(options.blocks.watermark * blocks.num_usable()) - of_passes;
  return num_clients <= options.scheduler.max_running && wait.prompt <= (step - beams - 1) / num_clients &&
         blocks.BlocksFor(wait.prompt) + blocks.sizes().state_blocks <= usable / num_clients &&
         blocks.pins().all().empty() && blocks.device_holdings().empty();
}

void Newcomers::Planned(const std::set<RequestId>& draws, int num_clients, bool others_may_give_way) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    auto& [id, wait] = *it;
    wait.plans += others_may_give_way && IsPromised(wait, num_clients);
    if (wait.plans > engine_.options().scheduler.most_outstanding())
      throw Failure{fmt::format("request {} of a client that has nothing gets no token with {} plans", id, wait.plans)};
    const bool drawn = draws.contains(id);
    num_promised += drawn && wait.plans > 0;
    num_prompt += drawn && wait.plans == 1;
    it = drawn ? waiting_.erase(it) : std::next(it);
  }
}

}  // namespace quire::sim
