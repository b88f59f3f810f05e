#pragma once

#include <sys/socket.h>

#include <string>

#include "comm/base/descriptor.h"

namespace quire {

/// Listens on "tcp://ADDRESS:PORT" (port 0: any free one; an address of IPv6 in brackets), without blocking. Throws
/// Error when it cannot.
Descriptor ListenOnTcp(const std::string& endpoint);
/// The endpoint of a socket that listens on TCP, with the port that the system chose.
std::string TcpEndpointOf(int listening);

/// Who connects next; not open, with errno, when there is nobody. The connection does not block, sends small words at
/// once, and ends when the peer confirms nothing for 3 s.
Descriptor AcceptPeer(int listening, sockaddr_storage& peer);

/// A peer's address in words, and the network that shares a bound with it: an IPv4 address, a /48 of IPv6.
struct PeerName {
  std::string address, network;
};
PeerName NameOf(const sockaddr_storage& peer);

/// A Unix socket that listens and that nobody but this process can reach: it has no name in the file system.
class PrivateSocket {
 public:
  /// Throws Error when there is no folder to make it in.
  PrivateSocket();

  /// The listening socket, for whoever accepts; that one closes it.
  int Release() { return listening_.Release(); }
  /// A connection to it that does not block; not open, with errno, when there is none.
  Descriptor Connect() const;

 private:
  Descriptor listening_, inode_;
};

}  // namespace quire
