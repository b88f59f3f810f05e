#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "coordinator/cache_events/cache_event.h"

namespace quire {

/// Carries batches of cache events from the engine's thread to the publisher's thread. Neither thread waits for the
/// other.
class CacheEventQueue {
 public:
  struct Batch {
    std::vector<CacheEvent> events;
    double unix_seconds;
  };

  explicit CacheEventQueue(size_t max_batches) : max_(max_batches) {}

  /// Queues a batch. When the queue is full, drops all its batches and the new batch, and queues one batch that says
  /// that nothing is cached.
  void Push(std::vector<CacheEvent> events, double unix_seconds) {
    const std::lock_guard lock(mutex_);
    if (batches_.size() >= max_) {
      num_lost_ += static_cast<int64_t>(batches_.size()) + 1;
      batches_.clear();
      events = {{.kind = CacheEvent::Kind::kCleared}};
    }
    batches_.push_back({std::move(events), unix_seconds});
  }

  std::deque<Batch> TakeAll() {
    const std::lock_guard lock(mutex_);
    return std::exchange(batches_, {});
  }

  /// Returns the number of batches dropped since the start.
  int64_t num_lost() const {
    const std::lock_guard lock(mutex_);
    return num_lost_;
  }

 private:
  const size_t max_;
  mutable std::mutex mutex_;
  std::deque<Batch> batches_;
  int64_t num_lost_ = 0;
};

}  // namespace quire
