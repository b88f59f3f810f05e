#pragma once

#include <chrono>
#include <map>
#include <string>

namespace quire {

/// What clients' work may take of the processors on which workers compute. Ranks go in lock-step: a core that is taken
/// from one of them for a moment is time that all of them lose. So all clients together have a twentieth of the cores
/// in the long run, in even parts; each may take 0.2 s of a core at once, and whoever took more rests before its next
/// job, 5 s at the most. A leaky bucket for each client, kept as the time when it will be empty. Not thread-safe.
class WorkShares {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WorkShares(unsigned cores);

  /// When the client's next job may begin; in the past, or never before `now` was: at once.
  Clock::time_point Next(const std::string& client) const;
  /// The client's work took so much of a core.
  void Charge(const std::string& client, std::chrono::nanoseconds took, Clock::time_point now);
  /// Clients that something is kept of.
  size_t num_clients() const { return empty_.size(); }

 private:
  Clock::duration Filling(std::chrono::nanoseconds took, size_t clients) const;

  double cores_;  // of the share
  std::map<std::string, Clock::time_point> empty_;
};

}  // namespace quire
