#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/cluster/group/group_failure.h"

namespace quire {

/// The worker groups that were lost, for operators. From any thread.
class LossLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kNumCauses = static_cast<size_t>(LossCause::kStopping) + 1;

  struct Entry {
    EpochId epoch = 0;
    LossCause cause{};
    Rank rank = -1;
    std::string host, message;
    Clock::time_point when;
    double stall_seconds = -1;  // until workers were ready again; below 0: they are not yet
  };
  struct Snapshot {
    std::array<int64_t, kNumCauses> count_by_cause{};
    std::vector<Entry> latest;  // newest last, 32 at most
    double last_stall_seconds = 0;
  };

  void Lost(EpochId epoch, const GroupFailure& failure);
  /// Workers are ready again: closes every entry that is open.
  void Recovered();
  Snapshot snapshot() const;

 private:
  static constexpr size_t kMostEntries = 32;

  mutable std::mutex mutex_;
  Snapshot log_;
};

}  // namespace quire
