#include "coordinator/api/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "comm/error.h"

// House rule for coroutines: g++ 12 miscompiles several shapes of co_await expressions, so a co_await stands only as
// the whole right side of a declaration or statement, and its arguments are named locals or plain values.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
constexpr int kSendBufferBytes = 64 << 10;  // of the kernel: a client that stops reading is noticed soon
constexpr auto kPollForEndEvery = std::chrono::milliseconds(200);
constexpr auto kBodyGrace = std::chrono::seconds(10);               // a body may be slower than its rate that long
constexpr size_t kDrainBytes = 2 * Topology::Limits::kLargestBody;  // of a body whose head was refused

}  // namespace

Connection::Connection(tcp::socket socket, const HttpLimits& limits, const HttpService& service)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      buffer_(limits.head_bytes),
      limits_(limits),
      service_(service) {
  beast::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  socket_.non_blocking(true, ignored);
}

asio::awaitable<void> Connection::Serve() {
  while (keep_alive_ && !gone_) {
    const Arrival arrival = co_await ReadRequest();
    if (arrival == Arrival::kLast) break;
    if (arrival == Arrival::kWhole) {
      WatchForEnd();
      co_await service_.handle(request_, *this);
      StopWatching();
      on_gone = nullptr;
    }
    served_one_ = true;
    request_ = HttpRequest();
  }
  Close();
}

asio::awaitable<void> Connection::TurnAway() {
  HttpResponse response = ErrorResponse(503, "too many connections; try again later");
  response.headers.emplace_back("Retry-After", "1");
  co_await Refuse(std::move(response));
  Close();
}

void Connection::Abandon() {
  StopWatching();
  Close();
}

// --- reading ---

Connection::Clock::duration Connection::TimeFor(size_t bytes, int64_t bytes_per_second, std::chrono::seconds shortest,
                                                std::chrono::seconds longest) {
  const std::chrono::seconds by_rate(static_cast<int64_t>(bytes) / bytes_per_second);
  return std::min(std::max(by_rate, shortest), longest);
}

/// A deadline ends the operation, not the connection: there is still something to say.
void Connection::SetDeadline(Clock::time_point when) {
  timed_out_ = false;
  deadline_.expires_at(when);
  deadline_.async_wait([self = shared_from_this(), number = ++deadline_number_](beast::error_code error) {
    if (error || number != self->deadline_number_) return;
    self->timed_out_ = true;
    beast::error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::ClearDeadline() {
  ++deadline_number_;
  deadline_.cancel();
}

/// Head, checks, body: nothing of a body is stored before its head was admitted.
asio::awaitable<Connection::Arrival> Connection::ReadRequest() {
  const auto parser = std::make_unique<HttpParser>();
  SetLimits(*parser, limits_);
  head_only_ = false;
  request_id_.clear();
  const bool head = co_await ReadHead(*parser);
  if (!head) co_return Arrival::kLast;
  parser->body_limit(BodyLimit(parser->get(), limits_));
  request_ = RequestOf(parser->get(), limits_);
  beast::error_code unknown;
  const auto peer = socket_.remote_endpoint(unknown);
  if (!unknown) request_.peer = peer.address().to_string();
  request_id_ = request_.Header("x-request-id");
  chunked_ = parser->get().version() == 11;
  keep_alive_ = chunked_ && parser->get().keep_alive();
  head_only_ = parser->get().method() == http::verb::head;
  if (std::optional<HttpResponse> refusal = service_.admit(request_)) {
    ClearDeadline();
    HttpResponse response = std::move(*refusal);
    if (parser->is_done()) {
      co_await Send(std::move(response));
      co_return Arrival::kAnswered;
    }
    co_await Refuse(std::move(response));
    co_return Arrival::kLast;
  }
  const bool body = co_await ReadBody(*parser);
  if (!body) co_return Arrival::kLast;
  ClearDeadline();
  request_.body = std::move(parser->get().body());
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  co_return Arrival::kWhole;
}

asio::awaitable<bool> Connection::ReadHead(HttpParser& parser) {
  const bool idle = served_one_ && buffer_.size() == 0;
  SetDeadline(Clock::now() + std::chrono::seconds(idle ? limits_.chosen.idle_seconds : limits_.chosen.head_seconds));
  auto [error, bytes] = co_await http::async_read_header(socket_, buffer_, parser, kToken);
  HttpResponse refusal{.status = 0};
  if (error) {
    refusal = HeadError(error);
  } else if (bytes > limits_.head_bytes) {  // the parser bounds only what it has to look at once more
    refusal = HeadError(http::error::header_limit);
  } else if (std::optional<HttpResponse> reason = RefuseHead(parser.get(), limits_)) {
    refusal = std::move(*reason);
  }
  if (refusal.status != 0) co_await Refuse(std::move(refusal));
  co_return !error && refusal.status == 0;
}

/// The deadline moves as the body comes: whoever sends less than the rate asked for, on average, is cut when it is
/// certain, and everybody at the latest when body_seconds are over.
asio::awaitable<bool> Connection::ReadBody(HttpParser& parser) {
  const auto fields = std::distance(parser.get().begin(), parser.get().end());
  if (!parser.get()[http::field::expect].empty() && !parser.is_done()) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await WriteRaw(std::move(go_on));
  }
  const Clock::time_point begin = Clock::now();
  const std::chrono::seconds longest(limits_.chosen.body_seconds);
  beast::error_code error;
  for (size_t received = buffer_.size(); !parser.is_done() && !error;) {
    SetDeadline(begin + TimeFor(received, limits_.chosen.body_bytes_per_second, kBodyGrace, longest));
    auto [read_error, bytes] = co_await http::async_read_some(socket_, buffer_, parser, kToken);
    error = read_error;
    received += bytes;
  }
  HttpResponse refusal{.status = 0};
  if (error) {
    refusal = BodyError(error);
  } else if (std::distance(parser.get().begin(), parser.get().end()) != fields) {  // they would merge into the headers
    refusal = ErrorResponse(400, "trailers are not accepted");
  }
  if (refusal.status != 0) co_await Refuse(std::move(refusal));
  co_return !error && refusal.status == 0;
}

/// Status 0: the client left without a word, and gets none.
HttpResponse Connection::HeadError(beast::error_code error) const {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return ErrorResponse(431, "the request head is too large");
  if (timed_out_ && (!served_one_ || buffer_.size() > 0)) return ErrorResponse(408, "the request head took too long");
  if (error == http::error::body_limit)
    return ErrorResponse(413, fmt::format("the body is larger than {} bytes", limits_.body_bytes));
  if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return ErrorResponse(400, "malformed HTTP request: " + error.message());
  }
  return {.status = 0};
}

HttpResponse Connection::BodyError(beast::error_code error) const {
  if (timed_out_) return ErrorResponse(408, "the request body took too long");
  return HeadError(error);
}

asio::awaitable<void> Connection::Refuse(HttpResponse response) {
  keep_alive_ = false;
  co_await Send(std::move(response));
  // Let the client read the answer before the close: unread input would turn it into a reset.
  beast::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  char drain[4096];
  const auto view = asio::buffer(drain);
  SetDeadline(Clock::now() + std::chrono::seconds(1));
  for (size_t total = 0; total < kDrainBytes;) {
    auto [error, count] = co_await socket_.async_read_some(view, kToken);
    if (error) break;
    total += count;
  }
  ClearDeadline();
}

// --- the client's end ---

/// While a handler works, the socket is watched for the client's end. A half-close counts as one. Bytes of a next
/// request stay in the socket.
void Connection::WatchForEnd() {
  watching_ = true;
  AwaitReadable();
}

void Connection::AwaitReadable() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](beast::error_code error) {
    if (error || !self->watching_) return;
    char byte = 0;
    const ssize_t count = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return self->MarkGone();
    if (count < 0) return self->AwaitReadable();
    self->PollForEnd();  // pipelined bytes keep the socket readable: waiting would return at once
  });
}

void Connection::PollForEnd() {
  if (poll_timer_ == nullptr) poll_timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  poll_timer_->expires_after(kPollForEndEvery);
  poll_timer_->async_wait([self = shared_from_this()](beast::error_code error) {
    if (error || !self->watching_) return;
    pollfd state{self->socket_.native_handle(), POLLRDHUP, 0};
    ::poll(&state, 1, 0);
    if ((state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return self->MarkGone();
    self->PollForEnd();
  });
}

void Connection::StopWatching() {
  watching_ = false;
  if (poll_timer_ != nullptr) poll_timer_->cancel();
  beast::error_code ignored;
  if (!gone_) socket_.cancel(ignored);
}

void Connection::MarkGone() {
  if (gone_) return;
  gone_ = true;
  if (on_gone) on_gone();
}

void Connection::Close() {
  ClearDeadline();  // it would keep the connection until then
  beast::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace quire
