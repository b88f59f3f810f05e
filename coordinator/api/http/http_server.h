#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "coordinator/api/http/http_types.h"
#include "coordinator/api/http/tls.h"

namespace quire {

/// HTTP/1.1 on one listening socket, in clear text or under TLS: framing, limits, deadlines, keep-alive, and event
/// streams. Knows no JSON and no routes. Everything runs on the io_context's one thread.
class HttpServer {
 public:
  /// Binds at once; throws Error when the address is taken or not ours.
  /// `certificate` is for TLS and outlives the server; null: clear text.
  HttpServer(boost::asio::io_context& io, const HostPort& listen, HttpLimits limits, HttpService service,
             const TlsCertificate* certificate = nullptr);
  ~HttpServer();

  uint16_t port() const;
  /// From now on every connection, new ones too, ends with the answer to its next request: its client may find another
  /// server for the one after that.
  void EndConnections();
  /// No new connections; those that are open go on.
  void StopAccepting();
  /// Other times and rates for connections from now on; how many there may be stays.
  void SetTimes(const Topology::Limits& limits);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace quire
