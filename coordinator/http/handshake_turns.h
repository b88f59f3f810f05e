#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>

#include "coordinator/http/handshake_pace.h"
#include "coordinator/http/ticket_calls.h"

namespace quire {

/// The queue in which a port's connections wait to begin their TLS handshake (HandshakePace). Only the I/O thread uses
/// this class.
class HandshakeTurns {
 public:
  explicit HandshakeTurns(const boost::asio::any_io_executor& executor) : calls_(executor), tick_(executor) {}
  HandshakeTurns(const HandshakeTurns&) = delete;
  HandshakeTurns& operator=(const HandshakeTurns&) = delete;

  /// Sets the time that each later handshake costs the I/O thread.
  void Cost(std::chrono::nanoseconds cost) { pace_.Cost(cost); }
  using Ticket = TicketCalls::Ticket;
  Ticket NewTicket() { return calls_.NewTicket(); }
  /// Waits until a handshake from this address may begin. A ticket waits only once. `ended` returns whether the client
  /// has left. Returns false when the connection must end: the client has left, or Leave() was called. Also returns
  /// false when this client has waited longest in its network and more clients of the network wait than handshakes
  /// begin in 5 s.
  boost::asio::awaitable<bool> Await(Ticket ticket, boost::asio::ip::address address, std::function<bool()> ended);
  /// Removes the ticket from the queue; the Await() that waits with it, if any, returns false.
  void Leave(Ticket ticket, const boost::asio::ip::address& address);

  /// The most open handshakes. Each handshake takes 0.1 to 0.25 MB, and lasts a few round trips, or longer if the
  /// client is slow. When one more handshake begins, the oldest open handshake is ended.
  static constexpr size_t kMostOpen = 512;
  /// A handshake counts as open while this object lives.
  using Open = std::shared_ptr<void>;
  /// Registers a handshake that begins. `give_way` must end the handshake. `give_way` is called at most once, and never
  /// after the returned Open is destroyed.
  Open Enter(std::function<void()> give_way);

 private:
  static constexpr int kLeftInOnePass = 256;  // most departed clients that are skipped between two polls
  static constexpr int kInOnePass = 8;        // most handshakes that begin between two polls of the sockets

  void AwaitNext();
  void BeginThoseWhoMay();

  TicketCalls calls_;
  boost::asio::steady_timer tick_;
  HandshakePace pace_;
  std::map<Ticket, std::function<bool()>> ended_;  // for each ticket in the queue: whether its client has left
  std::list<std::function<void()>> open_;          // the oldest first
};

}  // namespace quire
