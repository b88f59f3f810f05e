#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/group/group_failure.h"

namespace quire {

/// Which hosts the next epoch had better do without, from how the last ones ended: a host that is gone, at once, and
/// any host after two losses. Ten minutes later it gets a new chance.
class HostHealth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kMemory = std::chrono::minutes(10);
  static constexpr size_t kLossesToLeaveOut = 2;

  /// A loss that names no host is put down to the last one that was named: an epoch that does not start after a host
  /// was lost does not start because of that host.
  /// `answers` tells whether a host is still there.
  void Lost(const GroupFailure& failure, Clock::time_point now, const std::function<bool(const std::string&)>& answers);

  std::set<std::string> LeftOut(Clock::time_point now) const;

 private:
  struct Loss {
    Clock::time_point when;
    bool gone;  // the whole host, as opposed to a process of it
  };
  std::map<std::string, std::vector<Loss>> losses_;
  std::string last_named_;
};

}  // namespace quire
