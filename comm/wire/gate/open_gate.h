#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace quire {

/// Protects a TCP port of a ZeroMQ socket that serves anybody, without keys. ZeroMQ stores every subscription, and
/// every part of an unfinished message, without a bound: 30 bytes for each byte that a peer sends. ZeroMQ also accepts
/// connections until the process has no file descriptors left. So the gate accepts the connections, at most kMostPeers
/// at the same time, and forwards at most kMostBytes from each peer. The gate disconnects a peer that sends more, that
/// neither subscribes nor sends a message in time, or that receives nothing for 3 s while its system has no room for
/// more (AcceptPeer). When the gate is full, PlaceFor chooses the peer that a new one replaces, or refuses the new one.
/// ZeroMQ's clients connect again by themselves.
class OpenGate {
 public:
  static constexpr int kMostPeers = 64;
  static constexpr size_t kMostBytes = 8 << 10;

  /// Listens on "tcp://HOST:PORT" as ListenOnTcp does, without accepting a peer yet. `what` names the port in the log.
  /// `to_speak`: the time until a peer's first subscription or message; 0: no limit. Throws Error when it cannot
  /// listen.
  OpenGate(const std::string& endpoint, const std::string& what, std::chrono::milliseconds to_speak);
  /// Forwards bytes for up to 200 ms more, then ends all connections.
  ~OpenGate();
  OpenGate(const OpenGate&) = delete;
  OpenGate& operator=(const OpenGate&) = delete;

  /// Returns the bound address, with the port that the system chose.
  const std::string& endpoint() const;
  /// Returns a listening Unix socket, which no other process can reach, for the ZeroMQ socket (ZMQ_USE_FD). The ZeroMQ
  /// socket closes it.
  int ReleaseInner();
  /// Starts accepting peers. The ZeroMQ socket must be bound.
  void Open();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
