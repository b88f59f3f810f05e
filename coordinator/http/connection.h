#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>

#include "coordinator/http/client_socket.h"
#include "coordinator/http/connection_places.h"
#include "coordinator/http/http_head.h"
#include "coordinator/http/port_turns.h"

namespace quire {

/// One client connection, from accept to close, and the HttpResponder of the request that the connection serves. While
/// a handler works, a connection holds little more than its socket, so thousands of streams can be open.
class Connection : public HttpResponder, public std::enable_shared_from_this<Connection> {
 public:
  /// The references must outlive this object. `tls` is null for clear text.
  Connection(boost::asio::ip::tcp::socket socket, const std::shared_ptr<boost::asio::ssl::context>& tls,
             PortTurns& turns, const HttpLimits& limits, const HttpService& service);

  /// Serves requests one after another until either side ends the connection, or GiveWay() is called.
  boost::asio::awaitable<void> Serve(ConnectionPlaces::Place& place);
  /// Ends the connection while it waits for its client to send or to read something.
  void GiveWay();
  /// Answers with 503, because the server is full, without reading a request. Then closes the connection.
  boost::asio::awaitable<void> TurnAway();
  /// Closes the connection after an exception that no handler caught.
  void Abandon();
  bool began_handshake() const { return socket_.encrypted(); }

  boost::asio::awaitable<void> Send(HttpResponse response) override;
  boost::asio::awaitable<void> BeginStream() override;
  boost::asio::awaitable<void> BeginPieces(std::string content_type) override;
  boost::asio::awaitable<void> Write(std::string text) override;
  boost::asio::awaitable<void> EndStream() override;
  void ForgetContent() override;
  bool gone() const override { return gone_; }
  bool stalled() const override { return stalled_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Arrival {
    kWhole,     // a whole request arrived; serve it
    kAnswered,  // refused; the connection reads the next request
    kLast,      // refused for good, or the client sends no more
  };

  /// Returns the time allowed for `bytes` bytes: bytes / bytes_per_second, clamped to [shortest, longest].
  static Clock::duration TimeFor(size_t bytes, int64_t bytes_per_second, std::chrono::seconds shortest,
                                 std::chrono::seconds longest);
  boost::asio::awaitable<Arrival> ReadRequest();
  boost::asio::awaitable<bool> ReadHead(HttpParser& parser);
  boost::asio::awaitable<HttpResponse> ParseHead(HttpParser& parser);
  boost::asio::awaitable<bool> ReadBody(HttpParser& parser);
  boost::asio::awaitable<void> WriteRaw(std::string bytes);
  boost::asio::awaitable<void> WriteFrom(std::string_view bytes);
  boost::asio::awaitable<void> Refuse(HttpResponse response);
  HttpResponse HeadError(boost::beast::error_code error) const;
  IoShares::Client Payer() const;  // the key or network whose share of the I/O thread (IoShares) is charged
  boost::asio::awaitable<void> Begin(std::string head);
  void BeginAnswer();
  std::string LastLines() const;  // the last headers of every answer, and the empty line that ends its head
  void Tell();                    // reports the finished request (HttpService::answered)
  void SetDeadline(Clock::time_point when);
  void ClearDeadline();
  /// Secure() returns whether the TLS handshake succeeded. A client without TLS gets an answer that asks for TLS.
  boost::asio::awaitable<bool> Secure(), AwaitBytes(size_t count);
  boost::asio::awaitable<void> SayGoodbye(), AwaitEarlyRead(), AwaitTurn();
  void ReadEarly();
  void WatchForEnd();
  void AwaitReadable();
  void PollForEnd();
  void StopWatching();
  void MarkGone();
  void Close();

  ClientSocket socket_;
  boost::asio::steady_timer deadline_;                     // deadline of the read or write in progress
  std::unique_ptr<boost::asio::steady_timer> poll_timer_;  // created only when PollForEnd or AwaitEarlyRead needs it
  boost::beast::flat_buffer buffer_;                       // bounded, which also bounds chunk extensions and trailers
  PortTurns& turns_;
  boost::asio::ip::address peer_;             // unspecified if the client had left before its address was read
  ConnectionPlaces::Place* place_ = nullptr;  // null unless Serve runs
  const HttpLimits& limits_;
  const HttpService& service_;
  HttpRequest request_;
  Clock::time_point begin_ = Clock::now();               // when the whole head of the request had been read
  Clock::duration waited_{};                             // time spent waiting until the client reads more of the answer
  size_t taken_ = 0;                                     // bytes of the answer that were written after the first wait
  size_t unbroken_ = 0;                                  // bytes written since other coroutines last ran
  uint64_t deadline_number_ = 0, handshake_ticket_ = 0;  // number of the latest deadline; handshake's ticket
  bool keep_alive_ = true, chunked_ = true, head_only_ = false, served_one_ = false, watching_ = false, gone_ = false;
  bool timed_out_ = false, stalled_ = false, reading_early_ = false, said_goodbye_ = false;
  char early_ = 0;  // the byte that ReadEarly read
};

}  // namespace quire
