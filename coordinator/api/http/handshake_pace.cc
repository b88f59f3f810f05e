#include "coordinator/api/http/handshake_pace.h"

#include <algorithm>

namespace quire {

namespace {

constexpr size_t kMostEmpty = 1024;  // networks that are remembered although nothing has to be

}  // namespace

/// One more into the bucket that will be empty at `empty`: the time when it holds no more than a burst.
HandshakePace::Clock::time_point HandshakePace::Pour(Clock::time_point& empty, int per_second, Clock::time_point now) {
  const Clock::duration one = std::chrono::nanoseconds(std::chrono::seconds(1)) / per_second;
  empty = std::max(empty, now) + one;
  return std::max(now, empty - kBurst * one);
}

HandshakePace::Clock::time_point HandshakePace::TurnOfNetwork(const boost::asio::ip::address& network,
                                                              Clock::time_point now) {
  if (empty_by_network_.size() > kMostEmpty)
    std::erase_if(empty_by_network_, [now](const auto& entry) { return entry.second <= now; });
  return Pour(empty_by_network_[network], kPerSecondOfNetwork, now);
}

HandshakePace::Clock::time_point HandshakePace::TurnOfAll(Clock::time_point now) {
  return Pour(empty_, kPerSecond, now);
}

}  // namespace quire
