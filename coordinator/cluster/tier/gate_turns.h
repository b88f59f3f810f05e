#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace quire {

/// Decides which client's call is next when calls wait for each other: the call of the client that was served longest
/// ago. A new client comes before the client that was served last, and after the clients that were waiting before it.
class GateTurns {
 public:
  static constexpr size_t kMost = 256;  // number of clients without a waiting call that are remembered

  void Come(const std::string& client) { last_.try_emplace(client, turn_ == 0 ? 0 : turn_ - 1); }
  void Take(const std::string& client) { last_[client] = ++turn_; }
  /// Returns the oldest call of the next client. `calls` is not empty and ordered by arrival; each call has a `client`.
  template <class Calls>
  auto Next(Calls& calls) const {
    return std::ranges::min_element(calls, {}, [this](const auto& call) { return last_.at(call.client); });
  }
  /// Forgets clients without a call, if more than kMost are remembered.
  template <class Calls>
  void Forget(const Calls& calls) {
    if (last_.size() <= kMost) return;
    std::map<std::string, uint64_t> kept;
    for (const auto& call : calls) kept.emplace(call.client, last_.at(call.client));
    last_ = std::move(kept);
  }

 private:
  std::map<std::string, uint64_t> last_;
  uint64_t turn_ = 0;
};

}  // namespace quire
