#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/group/group_failure.h"

namespace quire {

/// Decides from past losses which hosts the next epoch should avoid: an unreachable host after one loss, any other host
/// after two losses. A loss is forgotten after kMemory.
class HostHealth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kMemory = std::chrono::minutes(10);
  static constexpr size_t kLossesToLeaveOut = 2;

  /// Records a loss. A loss that names no host counts against the host that was named last: if no epoch can start after
  /// the loss of a host, that host is the likely cause. `answers` returns whether a host can be reached.
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
