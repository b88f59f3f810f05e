#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/curve/curve_keys.h"
#include "comm/wire/curve/worker_hosts.h"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace quire {

/// The server side of CURVE. CURVE alone encrypts, and accepts any client that has a key pair. This object's ZAP
/// handler, on a thread of its own, accepts only the listed workers' keys, each under the user id "r<rank>". Sockets
/// belong to this object's own context. The context's handler starts before the first socket is created.
class CurveServer {
 public:
  /// Throws Error when a key is no valid Z85.
  explicit CurveServer(CoordinatorKeys keys);
  ~CurveServer();
  CurveServer(const CurveServer&) = delete;
  CurveServer& operator=(const CurveServer&) = delete;

  /// Returns the ZeroMQ context for this server's sockets. Destroy these sockets before this object.
  zmq::context_t& context();
  /// Configures the socket as a CURVE server. Call this before the socket is bound.
  void Secure(zmq::socket_t& socket) const;
  /// Connects to the socket that is bound to `endpoint`, with a new key that the server does not know. Throws Error
  /// unless the socket refuses that key within 3 seconds.
  void CheckThatStrangersAreRefused(const std::string& endpoint);

  /// True when the client that made this HELLO frame knows this server's public key.
  bool CanOpen(std::span<const uint8_t> hello) const;
  /// Counts a client that was refused before the handler saw its key. Returns num_refused(), this client included.
  uint64_t CountRefused();

  /// Returns the known addresses of workers' hosts. All ports of this server share these addresses.
  WorkerHosts& hosts();

  /// Returns the number of ranks that have a key.
  int num_workers() const;
  /// Returns the ranks' public keys.
  const std::vector<std::string>& worker_keys() const;
  /// Returns the number of clients that were refused since the start.
  uint64_t num_refused() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the user id of a rank's key, for example "r0".
std::string CurveUserId(Rank rank);

}  // namespace quire
