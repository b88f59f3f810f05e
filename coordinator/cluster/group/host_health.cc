#include "coordinator/cluster/group/host_health.h"

#include <algorithm>

namespace quire {

void HostHealth::Lost(const GroupFailure& failure, Clock::time_point now,
                      const std::function<bool(const std::string&)>& answers) {
  if (!failure.host.empty()) last_named_ = failure.host;
  if (last_named_.empty()) return;
  auto& losses = losses_[last_named_];
  std::erase_if(losses, [&](const Loss& loss) { return now - loss.when > kMemory; });
  losses.push_back({now, !answers(last_named_)});
}

std::set<std::string> HostHealth::LeftOut(Clock::time_point now) const {
  std::set<std::string> hosts;
  for (const auto& [host, losses] : losses_) {
    const auto fresh = [&](const Loss& loss) { return now - loss.when <= kMemory; };
    const auto count = static_cast<size_t>(std::ranges::count_if(losses, fresh));
    const bool gone = std::ranges::any_of(losses, [&](const Loss& loss) { return fresh(loss) && loss.gone; });
    if (count >= kLossesToLeaveOut || gone) hosts.insert(host);
  }
  return hosts;
}

}  // namespace quire
