#include "coordinator/http/work_shares.h"

#include <algorithm>

namespace quire {

namespace {

constexpr double kShare = 0.05;
constexpr std::chrono::seconds kLongestRest(60);
constexpr std::chrono::milliseconds kSweep(100);  // pause between checks of all buckets; there may be thousands

}  // namespace

WorkShares::WorkShares(unsigned cores, std::chrono::milliseconds at_once)
    : cores_(kShare * std::max(1U, cores)), at_once_(at_once) {}

/// Returns the time in which the share of one of `clients` clients grows by `took` of processor time; at most an hour.
WorkShares::Clock::duration WorkShares::Filling(std::chrono::nanoseconds took, size_t clients) const {
  const std::chrono::duration<double> time = std::chrono::duration<double>(took) * clients / cores_;
  return std::chrono::duration_cast<Clock::duration>(
      std::min<std::chrono::duration<double>>(time, std::chrono::hours(1)));
}

WorkShares::Clock::time_point WorkShares::Next(const std::string& client) const {
  const auto bucket = empty_.find(client);
  return bucket == empty_.end() ? Clock::time_point::min() : bucket->second - Filling(at_once_, 1);
}

void WorkShares::Charge(const std::string& client, std::chrono::nanoseconds took, Clock::time_point now) {
  if (now >= sweep_) {
    std::erase_if(empty_, [now](const auto& bucket) { return bucket.second <= now; });
    sweep_ = now + kSweep;
  }
  Clock::time_point& empty = empty_.try_emplace(client, now).first->second;
  empty = std::min(empty + Filling(took, empty_.size()), now + Filling(at_once_, 1) + kLongestRest);
}

}  // namespace quire
