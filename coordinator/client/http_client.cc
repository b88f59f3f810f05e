#include "coordinator/client/http_client.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <memory>

#include "comm/base/error.h"
#include "comm/base/json.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;
using asio::ip::tcp;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

// The most bytes of an answer's body: longer bodies end the exchange with an error.
constexpr uint64_t kMostAnswerBytes = 64u << 20;
// The most bytes that wait to be parsed. This bounds header fields, chunk extensions and trailers.
constexpr size_t kMostUnparsedBytes = 64 << 10;
// The most bytes that RefusalOf takes from a body without a message in OpenAI's form.
constexpr size_t kMostRefusalBytes = 2000;

http::request<http::string_body> HttpRequestOf(const ClientRequest& request) {
  http::request<http::string_body> out{request.body ? http::verb::post : http::verb::get, request.path, 11};
  out.set(http::field::host, request.server.authority());
  out.set(http::field::connection, "close");
  if (!request.authorization.empty()) out.set(http::field::authorization, request.authorization);
  for (const auto& [name, value] : request.headers) out.set(name, value);
  if (request.body) {
    out.set(http::field::content_type, "application/json");
    out.body() = *request.body;
    out.prepare_payload();
  }
  return out;
}

/// Reads the status and those header fields of an answer that clients of OpenAI's API use.
void ReadSigns(const http::response<http::string_body>& response, ClientAnswer& answer) {
  answer.status = static_cast<int>(response.result_int());
  answer.request_id = std::string(response["x-request-id"]);
  answer.may_retry = response["x-should-retry"] != "false";
  const auto after = response[http::field::retry_after];
  int seconds = 0;
  const auto read = std::from_chars(after.data(), after.data() + after.size(), seconds);
  if (read.ec == std::errc() && read.ptr == after.data() + after.size() && seconds >= 0)
    answer.retry_after_seconds = seconds;
}

/// Cancels a socket's operations when nothing has come for too long, or when the answer comes too slowly.
class Watch {
 public:
  Watch(tcp::socket& socket, const ClientRequest& request)
      : state_(std::make_shared<State>(State{&socket})),
        timer_(socket.get_executor()),
        patience_(request.patience),
        pace_(request.pace) {
    Begin(patience_, fmt::format("nothing came for {} s", patience_.count() / 1000.0));
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { state_->socket = nullptr; }

  /// Notes that a part of a streamed answer has arrived.
  void Continue() { Begin(patience_, fmt::format("nothing came for {} s", patience_.count() / 1000.0)); }
  /// Notes that `bytes` more bytes of a whole answer have arrived. `length_known` says whether the answer's total
  /// length is known.
  void ContinueWhole(size_t bytes, bool length_known) {
    const auto now = Clock::now();
    const auto left = begin_ + patience_ - now;
    came_ += bytes;
    if (!length_known || came_ >= BytesOfPace()) came_ = 0, pace_begin_ = now;
    const auto pace_left = pace_begin_ + pace_ - now;
    if (length_known && pace_left < left)
      Begin(pace_left, fmt::format("less than {} bytes came within {} s", BytesOfPace(), pace_.count() / 1000.0));
    else
      Begin(left, fmt::format("the answer did not come within {} s", patience_.count() / 1000.0));
  }
  /// True after the timer fired. Check this after each operation, because the timer may fire between two operations.
  bool is_over() const { return state_->is_over; }
  /// Returns the reason why this watch has cancelled the socket; if it has not, returns `said`, the socket's error.
  std::string Problem(const std::string& said) const { return state_->is_over ? reason_ : said; }

 private:
  using Clock = std::chrono::steady_clock;

  void Begin(Clock::duration time, std::string reason) {
    reason_ = std::move(reason);
    timer_.expires_after(time);
    timer_.async_wait([state = state_](const boost::system::error_code& error) {
      if (error || state->socket == nullptr) return;
      state->is_over = true;
      boost::system::error_code ignored;
      state->socket->cancel(ignored);
    });
  }
  size_t BytesOfPace() const { return static_cast<size_t>(1024 * pace_.count() / 1000); }

  struct State {  // outlives the watch in the timer's handler
    tcp::socket* socket;
    bool is_over = false;
  };
  std::shared_ptr<State> state_;
  asio::steady_timer timer_;
  std::chrono::milliseconds patience_, pace_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point pace_begin_ = begin_;  // start of the period in which came_ is counted
  size_t came_ = 0;
  std::string reason_;  // reported when the current timer fires
};

template <class Stream>
asio::awaitable<ClientAnswer> Exchange(Stream& stream, const ClientRequest& request, const OnBody& on_body,
                                       Watch& watch) {
  const auto written = HttpRequestOf(request);
  auto [error, size] = co_await http::async_write(stream, written, kToken);
  if (watch.is_over()) error = asio::error::operation_aborted;
  beast::flat_buffer buffer(kMostUnparsedBytes);
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMostAnswerBytes);
  ClientAnswer answer;
  while (!error && !parser.is_done()) {
    auto [read_error, count] = co_await http::async_read_some(stream, buffer, parser, kToken);
    error = read_error;
    if (watch.is_over()) error = asio::error::operation_aborted;
    if (on_body && !error)
      watch.Continue();
    else if (!error)
      watch.ContinueWhole(count, parser.is_header_done() && parser.content_length().has_value());
    if (!on_body || !parser.is_header_done() || parser.get().result() != http::status::ok) continue;
    try {
      on_body(parser.get().body());
    } catch (const std::exception& broken) {
      answer.problem = broken.what();
      co_return answer;
    }
  }
  if (error) answer.problem = watch.Problem(fmt::format("the connection ended early: {}", error.message()));
  if (parser.is_header_done()) ReadSigns(parser.get(), answer);
  answer.body = std::move(parser.get().body());
  co_return answer;
}

}  // namespace

std::string RefusalOf(const ClientAnswer& answer) {
  try {
    const Json body = ParseJson(answer.body, "the answer");
    const bool has_form = body.is_object() && body.contains("error") && body["error"].is_object();
    if (has_form && body["error"].contains("message") && body["error"]["message"].is_string())
      return fmt::format("status {}: {}", answer.status, body["error"]["message"].get<std::string>());
  } catch (const Error&) {  // not JSON: show the plain body
  }
  return fmt::format("status {}: {}", answer.status, answer.body.substr(0, kMostRefusalBytes));
}

asio::awaitable<ClientAnswer> Send(const ClientRequest& request, const OnBody& on_body) {
  const auto executor = co_await asio::this_coro::executor;
  ClientAnswer answer;
  tcp::socket socket(executor);
  boost::system::error_code open_error;
  socket.open(request.endpoint.protocol(), open_error);
  Watch watch(socket, request);
  auto [connect_error] = co_await socket.async_connect(request.endpoint, kToken);
  if (connect_error || watch.is_over()) {
    const std::string problem = watch.Problem(connect_error.message());
    answer.problem = fmt::format("cannot connect to {}: {}", request.server.authority(), problem);
    co_return answer;
  }
  if (!request.server.encrypted) {
    answer = co_await Exchange(socket, request, on_body, watch);
    co_return answer;
  }
  ssl::context context(ssl::context::tls_client);
  boost::system::error_code trust_error;
  context.set_default_verify_paths(trust_error);
  ssl::stream<tcp::socket&> encrypted(socket, context);
  encrypted.set_verify_mode(ssl::verify_peer);
  encrypted.set_verify_callback(ssl::host_name_verification(request.server.host));
  ::SSL_set_tlsext_host_name(encrypted.native_handle(), request.server.host.c_str());
  auto [tls_error] = co_await encrypted.async_handshake(ssl::stream_base::client, kToken);
  if (tls_error || watch.is_over()) {
    answer.problem = fmt::format("{}: {}", request.server.authority(), watch.Problem(tls_error.message()));
    co_return answer;
  }
  answer = co_await Exchange(encrypted, request, on_body, watch);
  co_return answer;
}

}  // namespace quire
