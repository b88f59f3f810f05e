#pragma once

#include <chrono>
#include <map>
#include <string>

namespace quire {

/// The share of the workers' processors that clients' jobs in a WorkPool, or their requests on the I/O thread
/// (IoShares), may take. Ranks run in lock-step, so a moment taken from one rank's core delays all ranks. All clients
/// together therefore get a twentieth of the cores in the long run, in even parts. A client that is alone may take the
/// time `at_once` of a core without a pause; its next job then waits, at most a minute. For each client the class
/// stores a leaky bucket, as the time when the bucket will be empty. The class is not thread-safe.
class WorkShares {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kAtOnce{200};

  explicit WorkShares(unsigned cores, std::chrono::milliseconds at_once = kAtOnce);

  /// Returns the time from which the client's next job may begin; a time in the past means immediately.
  Clock::time_point Next(const std::string& client) const;
  /// Charges the client with `took`, the time for which its work kept one core busy.
  void Charge(const std::string& client, std::chrono::nanoseconds took, Clock::time_point now);
  /// Returns the number of clients with a bucket.
  size_t num_clients() const { return empty_.size(); }

 private:
  Clock::duration Filling(std::chrono::nanoseconds took, size_t clients) const;

  double cores_;  // cores that all clients together get
  std::chrono::milliseconds at_once_;
  std::map<std::string, Clock::time_point> empty_;
  Clock::time_point sweep_{};  // when empty buckets are removed next
};

}  // namespace quire
