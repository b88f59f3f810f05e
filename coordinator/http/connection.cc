#include "coordinator/http/connection.h"

#include <algorithm>

#include "coordinator/http/await_token.h"

// Rule for coroutines: g++ 12 miscompiles several shapes of co_await expressions, so a co_await is used only as the
// whole right side of a declaration or statement, and its arguments are named locals or plain values.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

constexpr int kSendBufferBytes = 64 << 10;  // the kernel's buffer; a small one shows soon that a client stopped reading

}  // namespace

Connection::Connection(tcp::socket socket, const std::shared_ptr<asio::ssl::context>& tls, PortTurns& turns,
                       const HttpLimits& limits, const HttpService& service)
    : socket_(std::move(socket), tls),
      deadline_(socket_.get_executor()),
      buffer_(limits.head_bytes),
      turns_(turns),
      limits_(limits),
      service_(service) {
  record.id = NewRequestId();
  beast::error_code ignored;
  peer_ = socket_.tcp().remote_endpoint(ignored).address();
  socket_.tcp().set_option(tcp::no_delay(true), ignored);
  socket_.tcp().set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  socket_.tcp().non_blocking(true, ignored);
}

asio::awaitable<void> Connection::Serve(ConnectionPlaces::Place& place) {
  place_ = &place;
  if (socket_.to_be_encrypted()) {
    const bool secure = co_await Secure();
    keep_alive_ = keep_alive_ && secure;
  }
  while (keep_alive_ && !gone_) {
    const Arrival arrival = co_await ReadRequest();
    if (arrival == Arrival::kLast || gone_) break;
    if (arrival == Arrival::kWhole) {
      place.ServeClient();
      WatchForEnd();
      co_await service_.handle(request_, *this);
      StopWatching();
      if (reading_early_) co_await AwaitEarlyRead();
      on_gone = nullptr;
      place.AwaitClient();
    }
    Tell();
    served_one_ = true;
    request_ = HttpRequest();
  }
  if (socket_.encrypted()) co_await SayGoodbye();
  Close();
  place_ = nullptr;
}

void Connection::ForgetContent() {
  request_.body = std::string();
  request_.headers.clear();
}

asio::awaitable<void> Connection::TurnAway() {
  HttpResponse response = ErrorResponse(503, "too many connections; try again later");
  response.headers.emplace_back("Retry-After", "1");
  co_await Refuse(std::move(response));
  Close();
}

void Connection::Tell() {
  if (!service_.answered || (record.method.empty() && record.status == 0)) return;
  record.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  service_.answered(record);
}

void Connection::GiveWay() {
  MarkGone();
  turns_.handshakes.Leave(handshake_ticket_, peer_);
  Close();
}

void Connection::Abandon() {
  StopWatching();
  Close();
}

Connection::Clock::duration Connection::TimeFor(size_t bytes, int64_t bytes_per_second, std::chrono::seconds shortest,
                                                std::chrono::seconds longest) {
  const std::chrono::seconds by_rate(static_cast<int64_t>(bytes) / bytes_per_second);
  return std::min(std::max(by_rate, shortest), longest);
}

/// Sets a deadline that cancels the pending operation. The connection stays open, so an answer can still be sent.
void Connection::SetDeadline(Clock::time_point when) {
  timed_out_ = false;
  deadline_.expires_at(when);
  deadline_.async_wait([self = shared_from_this(), number = ++deadline_number_](beast::error_code error) {
    if (error || number != self->deadline_number_) return;
    self->timed_out_ = true;
    beast::error_code ignored;
    self->socket_.tcp().cancel(ignored);
  });
}

void Connection::ClearDeadline() {
  ++deadline_number_;
  deadline_.cancel();
}

}  // namespace quire
