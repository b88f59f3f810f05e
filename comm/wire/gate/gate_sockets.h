#pragma once

#include <sys/socket.h>

#include <string>

#include "comm/base/descriptor.h"

namespace quire {

/// How many connections may wait in the kernel's queue of a listening socket.
constexpr int kGateBacklog = 128;

/// Listens on "tcp://HOST:PORT" without blocking. HOST is an IPv4 address, a name that has one, an interface of this
/// host, or "*" for all addresses. HOST in brackets means the same for IPv6, because workers use IPv6 only for hosts in
/// brackets. Port 0 or "*" means any free port. Throws Error when the endpoint is none of these or cannot be bound.
Descriptor ListenOnTcp(const std::string& endpoint);
/// Returns the endpoint of a listening TCP socket, with the port that the system chose.
std::string TcpEndpointOf(int listening);

/// True when the errno means that no descriptors, or no memory for them, are left.
bool LacksDescriptors(int error);

/// Accepts the next connection. Returns a descriptor that is not open, with errno set, when there is none or when
/// accepting fails. The connection does not block, sends small messages without delay (TCP_NODELAY), and ends when the
/// peer leaves sent bytes unacknowledged for 3 s.
Descriptor AcceptPeer(int listening, sockaddr_storage& peer);

/// A peer's address as text, its network and its neighbourhood. A network is an IPv4 address or an IPv6 /48, and has a
/// limit of unauthenticated connections. A neighbourhood is an IPv4 /24, an IPv6 /48, or loopback. When all networks
/// together have too many connections, the neighbourhood with the most loses a connection first.
struct PeerName {
  std::string address, network, neighbourhood;
};
PeerName NameOf(const sockaddr_storage& peer);

/// A listening Unix socket that no other process can reach, because it has no name in the file system.
class PrivateSocket {
 public:
  /// Throws Error when no folder can be created for the socket, or when the socket cannot listen.
  PrivateSocket();

  /// Returns the listening socket's descriptor. The caller closes it.
  int Release() { return listening_.Release(); }
  /// Returns a non-blocking connection to the socket. The returned descriptor is not open, and errno is set, when
  /// connecting fails.
  Descriptor Connect() const;

 private:
  Descriptor listening_, inode_;
};

}  // namespace quire
