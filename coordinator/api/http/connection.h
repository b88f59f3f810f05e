#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>

#include "coordinator/api/http/client_socket.h"
#include "coordinator/api/http/connection_places.h"
#include "coordinator/api/http/http_head.h"
#include "coordinator/api/http/port_turns.h"

namespace quire {

/// One connection from accept to close; also the responder of the request it is serving. While a handler works it holds
/// little more than the socket: thousands of streams are open at once.
class Connection : public HttpResponder, public std::enable_shared_from_this<Connection> {
 public:
  /// The references outlive it. `tls` is null for clear text.
  Connection(boost::asio::ip::tcp::socket socket, const std::shared_ptr<boost::asio::ssl::context>& tls,
             PortTurns& turns, const HttpLimits& limits, const HttpService& service);

  /// Requests one after another, until either side ends it or its place is given away.
  boost::asio::awaitable<void> Serve(ConnectionPlaces::Place& place);
  /// Ends a connection whose client is to send something, or to take something.
  void GiveWay();
  /// Says that the server is full, whatever is asked, and ends.
  boost::asio::awaitable<void> TurnAway();
  /// Ends the connection after an error that no handler answered.
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
    kWhole,     // a request to be served
    kAnswered,  // refused, and the next one may come
    kLast,      // refused for good, or nothing more to come
  };

  /// How long it may take to move so many bytes: what the rate allows, within bounds.
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
  boost::asio::awaitable<void> Begin(std::string head);
  void BeginAnswer();
  std::string LastLines() const;  // that every answer has, and the empty one that ends its head
  void Tell();                    // of the request that is over
  void SetDeadline(Clock::time_point when);
  void ClearDeadline();
  /// The handshake; false: there was none, and whoever spoke clear text was told so.
  boost::asio::awaitable<bool> Secure(), AwaitBytes(size_t count);
  boost::asio::awaitable<void> SayGoodbye(), AwaitEarlyRead();
  void ReadEarly();
  void WatchForEnd();
  void AwaitReadable();
  void PollForEnd();
  void StopWatching();
  void MarkGone();
  void Close();

  ClientSocket socket_;
  boost::asio::steady_timer deadline_;                     // of the read or write that is going on
  std::unique_ptr<boost::asio::steady_timer> poll_timer_;  // only where it is needed
  boost::beast::flat_buffer buffer_;                       // bounded: it also bounds chunk extensions and trailers
  PortTurns& turns_;
  boost::asio::ip::address peer_;             // unspecified: it had gone before it was asked for
  ConnectionPlaces::Place* place_ = nullptr;  // while it is served
  const HttpLimits& limits_;
  const HttpService& service_;
  HttpRequest request_;
  Clock::time_point begin_ = Clock::now();               // of the request
  Clock::duration waited_{};                             // for the client to take more of the answer
  size_t taken_ = 0;                                     // of the answer, since it was first waited for
  size_t unbroken_ = 0;                                  // bytes of answers, since others had the thread
  uint64_t deadline_number_ = 0, handshake_ticket_ = 0;  // of the deadline that is set, and of its turn
  bool keep_alive_ = true, chunked_ = true, head_only_ = false, served_one_ = false, watching_ = false, gone_ = false;
  bool timed_out_ = false, stalled_ = false, reading_early_ = false, said_goodbye_ = false;
  char early_ = 0;  // what ReadEarly read
};

}  // namespace quire
