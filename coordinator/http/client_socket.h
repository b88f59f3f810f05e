#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>

#include "coordinator/http/tls.h"

namespace quire {

/// A client's connection, in clear text or under TLS, as a stream for Asio and Beast. A connection in clear text takes
/// little more memory than its socket.
class ClientSocket {
 public:
  using Tcp = boost::asio::ip::tcp::socket;
  using Tls = boost::asio::ssl::stream<Tcp&>;
  using executor_type = Tcp::executor_type;

  /// `tls` is null for clear text.
  ClientSocket(Tcp socket, std::shared_ptr<boost::asio::ssl::context> tls)
      : socket_(std::move(socket)), context_(std::move(tls)) {}
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  /// Returns the TCP socket below, with or without TLS on it.
  Tcp& tcp() { return socket_; }
  /// True when the client must speak TLS on this connection. Call BeginTls(), which creates the TLS state, only when
  /// the client's whole hello has arrived: the TLS state takes ten times as much memory as everything else of a
  /// connection.
  bool to_be_encrypted() const { return context_ != nullptr; }
  void BeginTls() {
    tls_ = std::make_unique<Tls>(socket_, *context_);
    bounds_.socket = socket_.native_handle();
    BoundClient(tls_->native_handle(), &bounds_);
  }
  /// Returns the TLS stream; call it only when encrypted() is true.
  Tls& tls() { return *tls_; }
  bool encrypted() const { return tls_ != nullptr; }
  /// True when the last async_handshake ended with an error only because it stops at the client's hello, before the
  /// server computes a signature. After PassHello(), another async_handshake continues from there.
  bool stopped_at_hello() { return StoppedAtHello(tls_->native_handle()); }
  void PassHello() { bounds_.may_pass_hello = true; }
  void EndHandshake() { bounds_.is_open = true; }
  void Close() {
    bounds_.socket = -1;  // the kernel may give this number to another connection
    boost::system::error_code ignored;
    socket_.shutdown(Tcp::shutdown_both, ignored);
    socket_.close(ignored);
  }
  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    const auto begin = [this](auto handler, const Buffers& into) {
      if (tls_ != nullptr)
        tls_->async_read_some(into, std::move(handler));
      else
        socket_.async_read_some(into, std::move(handler));
    };
    return boost::asio::async_initiate<Token, void(boost::system::error_code, size_t)>(begin, token, buffers);
  }

 private:
  Tcp socket_;
  TlsBounds bounds_;
  std::shared_ptr<boost::asio::ssl::context> context_;  // null: clear text
  std::unique_ptr<Tls> tls_;
};

}  // namespace quire
