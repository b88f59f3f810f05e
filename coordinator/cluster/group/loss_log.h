#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/cluster/group/group_failure.h"

namespace quire {

/// Keeps the losses of worker groups for operators. Callable from any thread.
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
    double stall_seconds = -1;  // seconds from the loss until workers were ready again; below 0: not ready yet
  };
  struct Snapshot {
    std::array<int64_t, kNumCauses> count_by_cause{};
    std::vector<Entry> latest;  // newest last, at most 32
    double last_stall_seconds = 0;
  };

  void Lost(EpochId epoch, const GroupFailure& failure);
  /// Sets the stall time of every loss that has none yet: the time since the loss. Called when workers are ready again.
  void Recovered();
  Snapshot snapshot() const;

 private:
  static constexpr size_t kMostEntries = 32;

  mutable std::mutex mutex_;
  Snapshot log_;
};

}  // namespace quire
