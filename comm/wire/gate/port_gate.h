#pragma once

#include <memory>
#include <string>

namespace quire {

class CurveServer;

/// Protects a TCP port of a ZeroMQ socket that speaks CURVE. ZeroMQ has only one limit on the size of messages, before
/// and after a handshake. It serves unauthenticated clients on the thread that handles plans and leases. So the gate
/// handles handshakes on a separate thread of lower priority. The gate checks each message's size and bytes,
/// disconnects a client at the first wrong byte, and connects only clients that know the server's public key to the
/// ZeroMQ socket. GateLinks forwards the bytes of clients that this socket accepts. Numbers and reasons:
/// comm/PROTOCOL.md.
class PortGate {
 public:
  /// Listens on "tcp://ADDRESS:PORT" without answering yet. Throws Error when it cannot listen.
  PortGate(const std::string& endpoint, std::shared_ptr<CurveServer> curve);
  /// Forwards bytes of accepted peers for up to 200 ms more.
  ~PortGate();
  PortGate(const PortGate&) = delete;
  PortGate& operator=(const PortGate&) = delete;

  /// Returns the bound address, with the port that the system chose.
  const std::string& endpoint() const;
  /// Returns a listening Unix socket, which no other process can reach, for the ZeroMQ socket (ZMQ_USE_FD). The ZeroMQ
  /// socket closes it.
  int ReleaseInner();
  /// Starts answering peers. The ZeroMQ socket must be bound. Throws Error when that socket does not answer.
  void Open();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
