#pragma once

#include <sys/socket.h>

#include <string>

#include "comm/base/descriptor.h"

namespace quire {

/// Listens on "tcp://HOST:PORT" without blocking; throws Error when it cannot. HOST is an IPv4 address, a name that has
/// one, an interface of this host, or "*" for all of its addresses; in brackets it is the same for IPv6. Workers try
/// IPv6 for brackets alone. Port 0 or "*": any free one.
Descriptor ListenOnTcp(const std::string& endpoint);
/// The endpoint of a socket that listens on TCP, with the port that the system chose.
std::string TcpEndpointOf(int listening);

/// Whether an errno says that there are no descriptors, or no memory for them.
bool LacksDescriptors(int error);

/// Who connects next; not open, with errno, when there is nobody. The connection does not block, sends small words at
/// once, and ends when the peer confirms nothing for 3 s.
Descriptor AcceptPeer(int listening, sockaddr_storage& peer);

/// A peer's address in words, and the network that shares a bound with it: an IPv4 address, a /48 of IPv6. The
/// neighbourhood is what gives way first where all networks together have too many: a /24 of IPv4, a /48 of IPv6.
struct PeerName {
  std::string address, network, neighbourhood;
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
