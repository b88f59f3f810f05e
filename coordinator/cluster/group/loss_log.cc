#include "coordinator/cluster/group/loss_log.h"

namespace quire {

void LossLog::Lost(EpochId epoch, const GroupFailure& failure) {
  const std::lock_guard lock(mutex_);
  ++log_.count_by_cause[static_cast<size_t>(failure.cause)];
  if (log_.latest.size() == kMostEntries) log_.latest.erase(log_.latest.begin());
  log_.latest.push_back({epoch, failure.cause, failure.rank, failure.host, failure.what(), Clock::now()});
}

void LossLog::Recovered() {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : log_.latest) {
    if (entry.stall_seconds >= 0) continue;
    entry.stall_seconds = std::chrono::duration<double>(Clock::now() - entry.when).count();
    log_.last_stall_seconds = entry.stall_seconds;
  }
}

LossLog::Snapshot LossLog::snapshot() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

}  // namespace quire
