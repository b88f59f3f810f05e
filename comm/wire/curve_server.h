#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/curve_keys.h"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace quire {

/// The coordinator's side of CURVE. CURVE alone encrypts and lets in whoever has a key pair; who may come in is decided
/// by a ZAP handler, a thread that this object owns: only the listed workers' keys, each under the user id "r<rank>".
/// Sockets live in this object's own context, whose handler is there before the first of them.
class CurveServer {
 public:
  /// Throws Error when ZeroMQ cannot encrypt.
  explicit CurveServer(CoordinatorKeys keys);
  ~CurveServer();
  CurveServer(const CurveServer&) = delete;
  CurveServer& operator=(const CurveServer&) = delete;

  /// Sockets in it must be gone before this object is.
  zmq::context_t& context();
  /// To be called before the socket is bound.
  void Secure(zmq::socket_t& socket) const;
  /// Knocks at a bound socket with a key that nobody knows. Throws Error unless it is turned away.
  void CheckThatStrangersAreRefused(const std::string& endpoint);

  /// Whether a whole frame with a client's HELLO was made by somebody who knows this server's public key.
  bool CanOpen(std::span<const uint8_t> hello) const;
  /// Counts one that was turned away before the handler saw a key, and returns num_refused.
  uint64_t CountRefused();

  /// Ranks that have a key.
  int num_workers() const;
  /// Their public keys.
  const std::vector<std::string>& worker_keys() const;
  /// Strangers that were turned away since the start.
  uint64_t num_refused() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The user id of a rank's key: "r0".
std::string CurveUserId(Rank rank);

}  // namespace quire
