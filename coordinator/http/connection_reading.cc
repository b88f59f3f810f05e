#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http.hpp>
#include <optional>

#include "coordinator/http/await_token.h"
#include "coordinator/http/connection.h"

// The reading side of a connection: it reads the requests, and refuses those that break a rule of HTTP.
// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr int kNothing = 0, kLeft = -1;  // in place of a status: kNothing: no refusal; kLeft: the client left
constexpr size_t kReadBytes = 2048;      // bytes of one read of a head
constexpr int kReadsInTurn = 8;          // reads before a request queues again; most heads need fewer
constexpr int kMostHeadReads = 512;      // reads of one head; under TLS each record may have one byte only
constexpr size_t kSmallRead = 1024;      // bytes of a body; a read that brings fewer counts as small
constexpr auto kBodyGrace = std::chrono::seconds(10);  // time before a body's rate is checked
constexpr size_t kPieceToTake = 256 << 10;             // least bytes of a piece for take_body, except the last
constexpr size_t kDrainBytes = 2 * Topology::Limits::kLargestBody;  // most bytes read after a refusal

}  // namespace

/// Reads the head, checks it, then reads the body. Apart from bytes that came along with the head, no byte of a body is
/// read before `admit` has accepted the head.
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
  const IoShares::Client payer = Payer();
  co_await turns_.shares.Rest(payer);
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
  const IoShares::Client payer = Payer();
  turns_.shares.Serve(payer);
  if (refusal.status == kNothing) co_return true;
  co_await turns_.shares.Rest(payer);
  co_await Refuse(std::move(refusal));
  co_return false;
}

/// Returns the client to whom the I/O thread's time is charged: the key of the request, or the peer's network if the
/// request has no key or its head is not read yet.
IoShares::Client Connection::Payer() const {
  return {request_.share.empty() ? TurnOf(peer_).to_string() : request_.share, request_.has_key};
}

/// Waits for the turn of the client's network. Then, if the client has used up its share of the I/O thread's time,
/// waits until its share allows more (IoShares::Rest).
asio::awaitable<void> Connection::AwaitTurn() {
  co_await turns_.requests.Await(peer_);
  const IoShares::Client payer = Payer();
  co_await turns_.shares.Rest(payer);
}

/// Reads and parses a head. Bytes that came after it stay in buffer_. Checks the raw bytes for folded header lines,
/// which the parser would join.
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
    turns_.shares.Serve(Payer());
    if (++reads == kMostHeadReads) co_return ErrorResponse(400, "the request head comes in too many pieces");
    if (reads % kReadsInTurn == 0) co_await AwaitTurn();
    if (timed_out_) co_return HeadError(asio::error::operation_aborted);  // while the request queued
  }
}

/// Reads a body. The deadline moves with the bytes: a client that is slower on average than body_bytes_per_second is
/// cut off, after kBodyGrace at the earliest. No body may take longer than body_seconds, except that an uploaded file
/// gets this time again for every body_bytes bytes.
asio::awaitable<bool> Connection::ReadBody(HttpParser& parser) {
  const auto fields = std::distance(parser.get().begin(), parser.get().end());
  const bool may_wait = parser.get().version() == 11 && !parser.get()[http::field::expect].empty();
  if (may_wait && !parser.is_done()) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await WriteRaw(std::move(go_on));
  }
  auto check_extension = [](uint64_t, beast::string_view extension, beast::error_code& problem) {
    if (HasControls(extension)) problem = http::error::bad_chunk_extension;
  };
  parser.on_chunk_header(check_extension);
  Clock::time_point begin = Clock::now();
  const std::chrono::seconds usual(limits_.chosen.body_seconds);
  beast::error_code error;
  int small_reads = 0;
  for (size_t received = buffer_.size(); !parser.is_done() && !error;) {
    // An uploaded file may be larger than body_bytes. Such a file gets body_seconds again for each body_bytes bytes
    // that have arrived.
    const auto longest = usual * static_cast<int64_t>(1 + received / limits_.body_bytes);
    SetDeadline(begin + TimeFor(received, limits_.chosen.body_bytes_per_second, kBodyGrace, longest));
    auto [read_error, bytes] = co_await http::async_read_some(socket_, buffer_, parser, kToken);
    error = read_error;
    received += bytes;
    turns_.shares.Serve(Payer());
    if (!error && request_.take_body && (parser.is_done() || parser.get().body().size() >= kPieceToTake)) {
      ClearDeadline();
      const Clock::time_point taken = Clock::now();
      std::string piece = std::exchange(parser.get().body(), {});
      co_await request_.take_body(std::move(piece));
      begin += Clock::now() - taken;  // the handler's time does not count against the client
    }
    if (bytes < kSmallRead && ++small_reads % kReadsInTurn == 0) co_await AwaitTurn();
  }
  HttpResponse refusal{.status = kNothing};
  if (error) {
    refusal = timed_out_ ? ErrorResponse(408, "the request body took too long") : HeadError(error);
  } else if (std::distance(parser.get().begin(), parser.get().end()) != fields) {  // trailers came
    refusal = ErrorResponse(400, "trailers are not accepted");
  }
  if (refusal.status > 0) co_await Refuse(std::move(refusal));
  co_return refusal.status == kNothing;
}

/// Returns the answer to a failed read of a head or body; status kLeft when the client has left, and no answer is sent.
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
  // Read what the client still sends: with unread input, the kernel resets the connection and drops the answer.
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
