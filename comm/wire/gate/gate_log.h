#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

namespace quire {

/// Logs events about unknown clients at a port, at most one line in ten seconds, because such clients decide how many
/// events there are.
class GateLog {
 public:
  explicit GateLog(const std::string& endpoint) : endpoint_(endpoint) {}

  void TurnedAway(const std::string& address, const char* reason, uint64_t num_refused) {
    if (IsTime())
      spdlog::warn("turned away {} from the workers' port {}: {} ({} so far)", address, endpoint_, reason, num_refused);
  }
  /// Logs that a client of a port without keys was disconnected, because `most` others are connected.
  void Full(const std::string& address, int most) {
    if (IsTime()) spdlog::warn("turned away {} from {}: {} peers are connected already", address, endpoint_, most);
  }
  /// Logs that a client has to wait. `error` is the errno that says why.
  void KeptWaiting(const std::string& address, int error) {
    if (IsTime())
      spdlog::warn(
          "{} waits at the workers' port {}: no descriptor was left, or no place behind the port: {}; "
          "raise the limit of open files (ulimit -n)",
          address, endpoint_, std::strerror(error));
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool IsTime() {
    if (Clock::now() < next_) return false;
    next_ = Clock::now() + std::chrono::seconds(10);
    return true;
  }

  const std::string endpoint_;
  Clock::time_point next_;
};

}  // namespace quire
