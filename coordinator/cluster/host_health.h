#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/group_failure.h"

namespace quire {

/// Which hosts the next epoch had better do without, from how the last ones ended. A host that was lost as a whole is
/// left out at once when another can take its place; any host after two losses. Ten minutes later it gets a new chance.
class HostHealth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kMemory = std::chrono::minutes(10);
  static constexpr size_t kLossesToLeaveOut = 2;

  /// A loss that names no host is put down to the last one that was named: an epoch that does not start after a host
  /// was lost does not start because of that host.
  void Lost(const GroupFailure& failure, Clock::time_point now);

  /// `has_spares`: there are hosts that can take the place of one that is left out.
  std::set<std::string> LeftOut(Clock::time_point now, bool has_spares) const;

 private:
  struct Loss {
    Clock::time_point when;
    bool whole_host;  // silent or cut off, as opposed to a process that ended
  };
  std::map<std::string, std::vector<Loss>> losses_;
  std::string last_named_;
};

}  // namespace quire
