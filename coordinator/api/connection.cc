#include "coordinator/api/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http.hpp>

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

}  // namespace

Connection::Connection(tcp::socket socket, const HttpLimits& limits, const HttpHandler& handler)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      buffer_(limits.head_bytes),
      limits_(limits),
      handler_(handler) {
  beast::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  socket_.non_blocking(true, ignored);
}

asio::awaitable<void> Connection::Serve() {
  while (keep_alive_ && !gone_) {
    const bool complete = co_await ReadRequest();
    if (!complete) break;
    WatchForEnd();
    co_await handler_(request_, *this);
    StopWatching();
    on_gone = nullptr;
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

/// A deadline ends the operation, not the connection: there is still something to say.
void Connection::SetDeadline(int seconds) {
  timed_out_ = false;
  deadline_.expires_after(std::chrono::seconds(seconds));
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

/// Head, checks, body. False: answered with an error, or nothing more to come.
asio::awaitable<bool> Connection::ReadRequest() {
  const auto parser = std::make_unique<HttpParser>();
  SetLimits(*parser, limits_);
  head_only_ = false;
  request_id_.clear();
  const bool head = co_await ReadHead(*parser);
  if (!head) co_return false;
  const bool body = co_await ReadBody(*parser);
  if (!body) co_return false;
  ClearDeadline();
  chunked_ = parser->get().version() == 11;
  keep_alive_ = chunked_ && parser->get().keep_alive();
  head_only_ = parser->get().method() == http::verb::head;
  request_ = ToRequest(parser->get());
  beast::error_code unknown;
  const auto peer = socket_.remote_endpoint(unknown);
  if (!unknown) request_.peer = peer.address().to_string();
  request_id_ = request_.Header("x-request-id");
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  co_return true;
}

asio::awaitable<bool> Connection::ReadHead(HttpParser& parser) {
  SetDeadline(served_one_ && buffer_.size() == 0 ? limits_.chosen.idle_seconds : limits_.chosen.head_seconds);
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

asio::awaitable<bool> Connection::ReadBody(HttpParser& parser) {
  const auto fields = std::distance(parser.get().begin(), parser.get().end());
  if (!parser.get()[http::field::expect].empty() && !parser.is_done()) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await WriteRaw(std::move(go_on));
  }
  SetDeadline(limits_.chosen.body_seconds);
  auto [error, bytes] = co_await http::async_read(socket_, buffer_, parser, kToken);
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
  SetDeadline(1);
  for (size_t total = 0; total < (1 << 20);) {
    auto [error, count] = co_await socket_.async_read_some(view, kToken);
    if (error) break;
    total += count;
  }
  ClearDeadline();
}

// --- writing ---

asio::awaitable<void> Connection::Send(HttpResponse response) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nServer: quire\r\nContent-Length: {}\r\n", response.status,
                  std::string_view(reason.data(), reason.size()), response.content_type, response.body.size());
  if (!request_id_.empty()) text += "x-request-id: " + request_id_ + "\r\n";
  for (const auto& [name, value] : response.headers) text += name + ": " + value + "\r\n";
  text += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  if (!head_only_) text += response.body;
  co_await WriteRaw(std::move(text));
}

asio::awaitable<void> Connection::BeginStream() {
  std::string head =
      "HTTP/1.1 200 OK\r\nServer: quire\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
      "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (chunked_) head += "Transfer-Encoding: chunked\r\n";  // an HTTP/1.0 client reads to the end
  if (!request_id_.empty()) head += "x-request-id: " + request_id_ + "\r\n";
  head += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  co_await WriteRaw(std::move(head));
}

asio::awaitable<void> Connection::Write(std::string text) {
  if (text.empty()) co_return;
  std::string chunk = chunked_ ? fmt::format("{:x}\r\n", text.size()) : "";
  chunk += text;
  if (chunked_) chunk += "\r\n";
  co_await WriteRaw(std::move(chunk));
}

asio::awaitable<void> Connection::EndStream() {
  if (!chunked_) co_return;
  std::string last = "0\r\n\r\n";
  co_await WriteRaw(std::move(last));
}

/// Most writes fit the kernel's buffer and wait for nothing. One that makes no progress for write_seconds ends the
/// connection.
asio::awaitable<void> Connection::WriteRaw(std::string bytes) {
  for (size_t done = 0; done < bytes.size() && !gone_;) {
    beast::error_code error;
    done += socket_.write_some(asio::buffer(bytes.data() + done, bytes.size() - done), error);
    if (error == asio::error::would_block) {
      stalled_ = true;
      SetDeadline(limits_.chosen.write_seconds);
      auto [wait_error] = co_await socket_.async_wait(tcp::socket::wait_write, kToken);
      ClearDeadline();
      stalled_ = false;
      error = wait_error;
    }
    if (error) MarkGone();
  }
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
