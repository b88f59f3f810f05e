#include "coordinator/http/connection.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <optional>

#include "comm/base/error.h"
#include "coordinator/http/await_token.h"

// Rule for coroutines: g++ 12 miscompiles several shapes of co_await expressions, so a co_await stands only as
// the whole right side of a declaration or statement, and its arguments are named locals or plain values.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr int kNothing = 0, kLeft = -1;     // in place of a refusal's status: no refusal; the client left
constexpr size_t kReadBytes = 2048;         // bytes of one read of a head
constexpr int kReadsInTurn = 8;             // reads before a request queues again; most heads need fewer
constexpr int kMostHeadReads = 512;         // reads of one head; under TLS each record may have one byte only
constexpr size_t kSmallRead = 1024;         // bytes of a body; a read that brings fewer counts as small
constexpr int kSendBufferBytes = 64 << 10;  // the kernel's buffer; a small one shows soon that a client stopped reading
constexpr auto kBodyGrace = std::chrono::seconds(10);               // time before a body's rate is checked
constexpr size_t kPieceToTake = 256 << 10;  // bytes of a piece, when a handler takes a body piece by piece
constexpr size_t kDrainBytes = 2 * Topology::Limits::kLargestBody;  // bytes read of a body whose head was refused

/// Makes an id for a request without x-request-id.
std::string NewRequestId() {
  std::array<unsigned char, 16> bytes{};
  const int failed = ::getentropy(bytes.data(), bytes.size());
  QUIRE_CHECK(failed == 0, "the system gives no random bytes: errno {}", errno);
  return fmt::format("req-{:02x}", fmt::join(bytes, ""));
}

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

// --- reading ---

Connection::Clock::duration Connection::TimeFor(size_t bytes, int64_t bytes_per_second, std::chrono::seconds shortest,
                                                std::chrono::seconds longest) {
  const std::chrono::seconds by_rate(static_cast<int64_t>(bytes) / bytes_per_second);
  return std::min(std::max(by_rate, shortest), longest);
}

/// Sets a deadline that cancels the pending operation; the connection stays open, so that the client may get an answer.
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

/// Reads the head, checks it, then reads the body. No byte of a body is stored before `admit` accepted its head.
asio::awaitable<Connection::Arrival> Connection::ReadRequest() {
  const auto parser = std::make_unique<HttpParser>();
  SetLimits(*parser, limits_);
  head_only_ = false;
  record = RequestRecord();
  record.id = NewRequestId();
  const bool head = co_await ReadHead(*parser);
  if (!head) co_return Arrival::kLast;
  parser->body_limit(BodyLimit(parser->get(), limits_));
  request_ = RequestOf(parser->get(), limits_);
  request_.peer = record.peer;
  if (const std::string wish = request_.Header("x-request-id"); !wish.empty()) record.id = wish;
  record.traceparent = request_.Header("traceparent");
  record.method = request_.method;
  record.path = request_.path;
  chunked_ = parser->get().version() == 11;
  keep_alive_ = chunked_ && parser->get().keep_alive() && !limits_.last_requests;
  head_only_ = parser->get().method() == http::verb::head;
  std::optional<HttpResponse> refusal = service_.admit(request_);
  record.client = request_.client;
  if (refusal) {
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
  HttpResponse refusal = co_await ParseHead(parser);
  begin_ = Clock::now();
  record.peer = peer_.to_string();
  if (refusal.status == kLeft) co_return false;
  co_await turns_.requests.Await(peer_);
  if (refusal.status == kNothing) co_return true;
  co_await Refuse(std::move(refusal));
  co_return false;
}

/// Reads a head, and no byte after its last line. Checks the raw bytes for folded lines: the parser joins them.
asio::awaitable<HttpResponse> Connection::ParseHead(HttpParser& parser) {
  size_t bytes = 0;
  int reads = 0;
  for (bool folded = false;;) {
    beast::error_code error;
    if (buffer_.size() > 0) {
      const size_t taken = parser.put(buffer_.data(), error);
      folded = folded || IsFolded({static_cast<const char*>(buffer_.data().data()), taken});
      bytes += taken;
      buffer_.consume(taken);
      if (error == http::error::need_more) error = {};
      if (!error && parser.is_header_done()) {
        if (bytes > limits_.head_bytes) co_return HeadError(http::error::header_limit);
        if (folded) co_return ErrorResponse(400, "header lines may not be folded");
        std::optional<HttpResponse> reason = RefuseHead(parser.get(), limits_);
        co_return reason ? std::move(*reason) : HttpResponse{.status = kNothing};
      }
    }
    if (!error && buffer_.size() == buffer_.max_size()) error = http::error::buffer_overflow;
    if (error) co_return HeadError(error);
    const auto room = buffer_.prepare(std::min(kReadBytes, buffer_.max_size() - buffer_.size()));
    auto [read_error, count] = co_await socket_.async_read_some(room, kToken);
    if (read_error) co_return HeadError(read_error);
    buffer_.commit(count);
    if (++reads == kMostHeadReads) co_return ErrorResponse(400, "the request head comes in too many pieces");
    if (reads % kReadsInTurn == 0) co_await turns_.requests.Await(peer_);
    if (timed_out_) co_return HeadError(asio::error::operation_aborted);  // while the request queued
  }
}

/// Reads a body. The deadline moves with the bytes: a client that is slower on average than body_bytes_per_second is
/// cut off as soon as that is certain, after kBodyGrace at the earliest. body_seconds bounds every body.
asio::awaitable<bool> Connection::ReadBody(HttpParser& parser) {
  const auto fields = std::distance(parser.get().begin(), parser.get().end());
  const bool may_wait = parser.get().version() == 11 && !parser.get()[http::field::expect].empty();
  if (may_wait && !parser.is_done()) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await WriteRaw(std::move(go_on));
  }
  Clock::time_point begin = Clock::now();
  const std::chrono::seconds usual(limits_.chosen.body_seconds);
  beast::error_code error;
  int small_reads = 0;
  for (size_t received = buffer_.size(); !parser.is_done() && !error;) {
    // A file has the time of a usual body for each usual body's bytes.
    const auto longest = usual * static_cast<int64_t>(1 + received / limits_.body_bytes);
    SetDeadline(begin + TimeFor(received, limits_.chosen.body_bytes_per_second, kBodyGrace, longest));
    auto [read_error, bytes] = co_await http::async_read_some(socket_, buffer_, parser, kToken);
    error = read_error;
    received += bytes;
    if (!error && request_.take_body && (parser.is_done() || parser.get().body().size() >= kPieceToTake)) {
      ClearDeadline();
      const Clock::time_point taken = Clock::now();
      std::string piece = std::exchange(parser.get().body(), {});
      co_await request_.take_body(std::move(piece));
      begin += Clock::now() - taken;  // the client need not make up for the disk
    }
    if (bytes < kSmallRead && ++small_reads % kReadsInTurn == 0) co_await turns_.requests.Await(peer_);
  }
  HttpResponse refusal{.status = kNothing};
  if (error) {
    refusal = timed_out_ ? ErrorResponse(408, "the request body took too long") : HeadError(error);
  } else if (std::distance(parser.get().begin(), parser.get().end()) != fields) {  // they would merge into the headers
    refusal = ErrorResponse(400, "trailers are not accepted");
  }
  if (refusal.status > 0) co_await Refuse(std::move(refusal));
  co_return refusal.status == kNothing;
}

/// Returns the answer to a failed read of a head; status kLeft when the client has left, and no answer is sent.
HttpResponse Connection::HeadError(beast::error_code error) const {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return ErrorResponse(431, "the request head is too large");
  if (timed_out_ && (!served_one_ || buffer_.size() > 0)) return ErrorResponse(408, "the request head took too long");
  const size_t most = request_.take_body ? limits_.upload_bytes : limits_.body_bytes;
  if (error == http::error::body_limit)
    return ErrorResponse(413, fmt::format("the body is larger than {} bytes", most));
  if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return ErrorResponse(400, "malformed HTTP request: " + error.message());
  }
  return {.status = kLeft};
}

asio::awaitable<void> Connection::Refuse(HttpResponse response) {
  keep_alive_ = false;
  co_await Send(std::move(response));
  Tell();
  if (socket_.encrypted()) co_await SayGoodbye();
  // Read the client's input before the close: with unread input the kernel resets the connection and drops the answer.
  beast::error_code ignored;
  socket_.tcp().shutdown(tcp::socket::shutdown_send, ignored);
  char drain[4096];
  const auto view = asio::buffer(drain);
  SetDeadline(Clock::now() + std::chrono::seconds(1));
  for (size_t total = 0; total < kDrainBytes;) {
    auto [error, count] = co_await socket_.tcp().async_read_some(view, kToken);
    if (error) break;
    total += count;
  }
  ClearDeadline();
}

}  // namespace quire
