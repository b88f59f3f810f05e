#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/group/group_failure.h"

namespace quire {

/// Decides from past losses which hosts the next epoch should avoid: a host that did not answer, after one loss; any
/// other host, after two losses. After kMemory a loss is forgotten.
class HostHealth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kMemory = std::chrono::minutes(10);
  static constexpr size_t kLossesToLeaveOut = 2;

  /// Records a loss. A loss without a host counts for the host named last: if an epoch fails to start after a host was
  /// lost, that host is the likely cause. `answers` tells whether a host is reachable.
  void Lost(const GroupFailure& failure, Clock::time_point now, const std::function<bool(const std::string&)>& answers);

  std::set<std::string> LeftOut(Clock::time_point now) const;

 private:
  struct Loss {
    Clock::time_point when;
    bool gone;  // the whole host did not answer, not only a process on it
  };
  std::map<std::string, std::vector<Loss>> losses_;
  std::string last_named_;
};

}  // namespace quire
