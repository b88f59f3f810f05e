#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "coordinator/http/http_types.h"
#include "coordinator/http/tls.h"

namespace quire {

/// An HTTP/1.1 server on one listening socket, in clear text or under TLS. The server handles framing, limits,
/// deadlines, keep-alive and event streams, but knows no JSON and no routes. The whole server runs on the io_context's
/// one thread.
class HttpServer {
 public:
  /// Binds the socket. Throws Error when the address is in use or not an address of this host. `certificate` must
  /// outlive the server; null: clear text.
  HttpServer(boost::asio::io_context& io, const HostPort& listen, HttpLimits limits, HttpService service,
             const TlsCertificate* certificate = nullptr);
  ~HttpServer();

  uint16_t port() const;
  /// Closes every present and future connection after its next answer, so that its client may find another server.
  void EndConnections();
  /// Stops accepting new connections; open connections are served further.
  void StopAccepting();
  /// Replaces the times and rates of all connections. The limits on their number stay.
  void SetTimes(const Topology::Limits& limits);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace quire
