#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "coordinator/http/work_shares.h"

namespace quire {

/// Bounds the processor time that clients' requests take on the I/O thread while workers compute on the same
/// processors. Ranks run in lock-step, so a moment taken from one rank's core delays all ranks. Each handler's time is
/// charged to the share (WorkShares) of the client that it serves. A client beyond its share waits before its next
/// request is read or refused. All keys together get a twentieth of the cores, and networks of requests without a key
/// another twentieth, so such networks take nothing from keys. Each io_context has one object, which only its thread
/// uses.
class IoShares : public boost::asio::execution_context::service {
 public:
  using key_type = IoShares;
  using Clock = WorkShares::Clock;
  static inline boost::asio::execution_context::id id;
  // The longest wait (rest) before one request: long enough against a flood, short enough for probes that allow a
  // second.
  static constexpr std::chrono::milliseconds kLongestRest{500};
  struct Client {
    std::string name;      // name of the key, or of the network
    bool has_key = false;  // false: `name` is a network
  };

  explicit IoShares(boost::asio::execution_context& context);

  /// `busy` returns true while workers compute on this thread's processors. Before this call no client has to wait
  /// (rest).
  void RestWhile(std::function<bool()> busy) { busy_ = std::move(busy); }
  /// Says that the running handler serves this client. The handler's time since its first Serve() is charged to the
  /// client of its last Serve().
  void Serve(Client client);
  /// Charges the time of the handler that has just ended. RunIo() calls it.
  void EndHandler();
  /// Returns the time for which the client must wait (rest) from now on.
  Clock::duration RestOf(const Client& client) const;
  /// Waits until the client's rest (RestOf) is over. Rests of all clients end together, ten times a second, because
  /// each interruption delays the ranks, however short it is.
  boost::asio::awaitable<void> Rest(Client client);

 private:
  void shutdown() override { busy_ = nullptr; }

  std::function<bool()> busy_;
  WorkShares keys_, networks_;
  Client client_;                                  // the client whose handler runs
  std::optional<std::chrono::nanoseconds> begin_;  // processor time of the thread at the handler's first Serve()
};

/// Runs the handlers of `io` until it is stopped or has no more work, and charges their time to clients (IoShares).
void RunIo(boost::asio::io_context& io);

}  // namespace quire
