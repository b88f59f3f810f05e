#pragma once

#include <memory>
#include <string>

namespace quire {

class CurveServer;

/// A TCP port in front of a ZeroMQ socket that speaks CURVE. ZeroMQ bounds what a peer may send, but alike before and
/// after its handshake, and serves strangers on the thread that carries plans and leases. So strangers stay here, on a
/// thread that has less of the processor than others: each word of a handshake has a known size, a wrong byte ends the
/// connection, and only who knows the server's public key comes to the socket behind. Whoever that one lets in is
/// carried to and fro on another thread (GateLinks). Numbers and reasons: comm/PROTOCOL.md.
class PortGate {
 public:
  /// Listens on "tcp://ADDRESS:PORT"; nobody is answered yet. Throws Error when it cannot.
  PortGate(const std::string& endpoint, std::shared_ptr<CurveServer> curve);
  /// Passes on what peers that were let in have under way, for a moment.
  ~PortGate();
  PortGate(const PortGate&) = delete;
  PortGate& operator=(const PortGate&) = delete;

  /// The address with the port the system chose.
  const std::string& endpoint() const;
  /// A listening Unix socket, which nobody else can reach, for the socket behind (ZMQ_USE_FD); that one closes it.
  int ReleaseInner();
  /// Peers are answered from now on. The socket behind must be bound. Throws Error when that one does not answer.
  void Open();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
