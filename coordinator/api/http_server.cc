#include "coordinator/api/http_server.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "comm/error.h"
#include "coordinator/api/http_head.h"

// House rule for coroutines: g++ 12 miscompiles several shapes of co_await expressions, so a co_await stands only as
// the whole right side of a declaration or statement, and its arguments are named locals or plain values.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

std::string AddressOf(const tcp::socket& socket) {
  beast::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "" : endpoint.address().to_string();
}

/// One connection; also the responder of the request it is serving.
class Connection : public HttpResponder, public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, const HttpLimits& limits, const HttpHandler& handler)
      : peer_(AddressOf(socket)),
        stream_(std::move(socket)),
        watch_timer_(stream_.get_executor()),
        buffer_(limits.head_bytes),
        limits_(limits),
        handler_(handler) {}

  asio::awaitable<void> Serve() {
    for (keep_alive_ = true; keep_alive_ && !gone_;) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(static_cast<uint32_t>(limits_.head_bytes));
      parser.body_limit(limits_.body_bytes);
      head_only_ = false;
      request_id_.clear();
      const bool complete = co_await ReadRequest(parser);
      if (!complete) break;
      HttpRequest request = ToRequest(parser.get());
      request.peer = peer_;
      request_id_ = request.Header("x-request-id");
      chunked_ = parser.get().version() == 11;
      keep_alive_ = chunked_ && parser.get().keep_alive();
      head_only_ = parser.get().method() == http::verb::head;
      WatchForEnd();
      co_await handler_(request, *this);
      StopWatching();
      on_gone = nullptr;
      served_one_ = true;
    }
    Close();
  }

  /// Ends the connection after an error that no handler answered.
  void Abandon() {
    StopWatching();
    Close();
  }

  asio::awaitable<void> Send(HttpResponse response) override {
    http::response<http::string_body> message{static_cast<http::status>(response.status), 11};
    message.set(http::field::content_type, response.content_type);
    message.set(http::field::server, "quire");
    if (!request_id_.empty()) message.set("x-request-id", request_id_);
    for (const auto& [name, value] : response.headers) message.set(name, value);
    message.body() = std::move(response.body);
    message.keep_alive(keep_alive_);
    message.prepare_payload();
    if (head_only_) message.body().clear();
    stream_.expires_after(std::chrono::seconds(limits_.write_seconds));
    auto [error, bytes] = co_await http::async_write(stream_, message, kToken);
    if (error) MarkGone();
  }

  asio::awaitable<void> BeginStream() override {
    std::string head =
        "HTTP/1.1 200 OK\r\nServer: quire\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
    if (chunked_) head += "Transfer-Encoding: chunked\r\n";  // an HTTP/1.0 client reads to the end
    if (!request_id_.empty()) head += "x-request-id: " + request_id_ + "\r\n";
    head += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
    co_await WriteRaw(std::move(head));
  }

  asio::awaitable<void> Write(std::string text) override {
    if (text.empty()) co_return;
    std::string chunk = chunked_ ? fmt::format("{:x}\r\n", text.size()) : "";
    chunk += text;
    if (chunked_) chunk += "\r\n";
    co_await WriteRaw(std::move(chunk));
  }

  asio::awaitable<void> EndStream() override {
    if (!chunked_) co_return;
    std::string last = "0\r\n\r\n";
    co_await WriteRaw(std::move(last));
  }

  bool gone() const override { return gone_; }

 private:
  asio::awaitable<void> WriteRaw(std::string bytes) {
    if (gone_) co_return;
    stream_.expires_after(std::chrono::seconds(limits_.write_seconds));
    const auto view = asio::buffer(bytes);
    auto [error, count] = co_await asio::async_write(stream_, view, kToken);
    if (error) MarkGone();
  }

  /// Head, checks, body. False: answered with an error, or nothing more to come.
  asio::awaitable<bool> ReadRequest(http::request_parser<http::string_body>& parser) {
    const int head_seconds = served_one_ && buffer_.size() == 0 ? limits_.idle_seconds : limits_.head_seconds;
    stream_.expires_after(std::chrono::seconds(head_seconds));
    auto [head_error, head_bytes] = co_await http::async_read_header(stream_, buffer_, parser, kToken);
    if (head_error) {
      HttpResponse response = HeadError(head_error);
      if (response.status != 0) co_await Refuse(std::move(response));
      co_return false;
    }
    std::optional<HttpResponse> refusal = RefuseHead(parser.get(), limits_);
    if (refusal) {
      HttpResponse response = std::move(*refusal);
      co_await Refuse(std::move(response));
      co_return false;
    }
    const auto fields = std::distance(parser.get().begin(), parser.get().end());
    stream_.expires_after(std::chrono::seconds(limits_.body_seconds));
    if (!parser.get()[http::field::expect].empty() && !parser.is_done()) {
      std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await WriteRaw(std::move(go_on));
      stream_.expires_after(std::chrono::seconds(limits_.body_seconds));
    }
    auto [body_error, body_bytes] = co_await http::async_read(stream_, buffer_, parser, kToken);
    if (body_error) {
      HttpResponse response = BodyError(body_error);
      if (response.status != 0) co_await Refuse(std::move(response));
      co_return false;
    }
    if (std::distance(parser.get().begin(), parser.get().end()) != fields) {  // trailers would merge into the headers
      HttpResponse response = ErrorResponse(400, "trailers are not accepted");
      co_await Refuse(std::move(response));
      co_return false;
    }
    co_return true;
  }

  /// Status 0: the client left without a word, and gets none.
  HttpResponse HeadError(beast::error_code error) const {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return ErrorResponse(431, "the request head is too large");
    if (error == beast::error::timeout && !served_one_) return ErrorResponse(408, "the request head took too long");
    if (error == http::error::body_limit)
      return ErrorResponse(413, fmt::format("the body is larger than {} bytes", limits_.body_bytes));
    if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      return ErrorResponse(400, "malformed HTTP request: " + error.message());
    }
    return {.status = 0};
  }
  HttpResponse BodyError(beast::error_code error) const {
    if (error == http::error::body_limit)
      return ErrorResponse(413, fmt::format("the body is larger than {} bytes", limits_.body_bytes));
    if (error == beast::error::timeout) return ErrorResponse(408, "the request body took too long");
    return HeadError(error);
  }

  asio::awaitable<void> Refuse(HttpResponse response) {
    keep_alive_ = false;
    if (!stream_.socket().is_open()) co_return;  // a deadline closes the socket
    co_await Send(std::move(response));
    // Let the client read the answer before the close: unread input would turn it into a reset.
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    char drain[4096];
    const auto view = asio::buffer(drain);
    stream_.expires_after(std::chrono::seconds(1));
    for (size_t total = 0; total < (1 << 20);) {
      auto [error, count] = co_await stream_.async_read_some(view, kToken);
      if (error) break;
      total += count;
    }
  }

  static HttpRequest ToRequest(HttpHead& head) {
    HttpRequest request;
    request.method = std::string(head.method_string());
    const std::string target(head.target());
    const size_t question = target.find('?');
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    for (const char* name : {"authorization", "x-request-id", "content-type", "host", "origin"}) {
      const auto value = head[name];
      if (!value.empty()) request.headers[name] = std::string(value.substr(0, 4096));
    }
    std::string& id = request.headers["x-request-id"];
    const bool plain = std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (!plain || id.size() > 128) id.clear();
    request.body = std::move(head.body());
    return request;
  }

  /// While a handler works, the socket is watched for the client's end. A half-close counts as one. Bytes of a next
  /// request stay in the socket.
  void WatchForEnd() {
    watching_ = true;
    AwaitReadable();
  }
  void AwaitReadable() {
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](beast::error_code error) {
      if (error || !self->watching_) return;
      char byte = 0;
      const ssize_t count = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return self->MarkGone();
      if (count < 0) return self->AwaitReadable();
      self->PollForEnd();  // pipelined bytes keep the socket readable: waiting would return at once
    });
  }
  void PollForEnd() {
    watch_timer_.expires_after(std::chrono::milliseconds(200));
    watch_timer_.async_wait([self = shared_from_this()](beast::error_code error) {
      if (error || !self->watching_) return;
      pollfd state{self->stream_.socket().native_handle(), POLLRDHUP, 0};
      ::poll(&state, 1, 0);
      if ((state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return self->MarkGone();
      self->PollForEnd();
    });
  }
  void StopWatching() {
    watching_ = false;
    watch_timer_.cancel();
    beast::error_code ignored;
    if (!gone_) stream_.socket().cancel(ignored);
  }

  void MarkGone() {
    if (gone_) return;
    gone_ = true;
    if (on_gone) on_gone();
  }

  void Close() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

  std::string peer_;
  beast::tcp_stream stream_;
  asio::steady_timer watch_timer_;
  beast::flat_buffer buffer_;  // bounded: it also bounds chunk extensions and trailers
  const HttpLimits& limits_;
  const HttpHandler& handler_;
  std::string request_id_;
  bool keep_alive_ = true, chunked_ = true, head_only_ = false, served_one_ = false, watching_ = false, gone_ = false;
};

}  // namespace

struct HttpServer::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, HttpLimits l, HttpHandler h) : acceptor(io), retry(io), limits(l), handler(std::move(h)) {}

  tcp::acceptor acceptor;
  asio::steady_timer retry;
  HttpLimits limits;
  HttpHandler handler;
  int connections = 0;

  asio::awaitable<void> Accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor.async_accept(kToken);
      if (error == asio::error::operation_aborted || !acceptor.is_open()) break;
      if (error) {  // out of descriptors: wait instead of spinning
        retry.expires_after(std::chrono::milliseconds(50));
        co_await retry.async_wait(kToken);
        continue;
      }
      if (connections >= limits.max_connections) continue;  // closed by its destructor
      beast::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      ++connections;
      asio::co_spawn(acceptor.get_executor(), ServeOne(std::move(socket)), asio::detached);
    }
  }

  asio::awaitable<void> ServeOne(tcp::socket socket) {
    const auto self = shared_from_this();
    const auto connection = std::make_shared<Connection>(std::move(socket), limits, handler);
    try {
      co_await connection->Serve();
    } catch (const std::exception& error) {
      spdlog::error("a connection ended by an error: {}", error.what());
      connection->Abandon();
    }
    --connections;
  }
};

HttpServer::HttpServer(asio::io_context& io, const HostPort& listen, HttpLimits limits, HttpHandler handler)
    : impl_(std::make_shared<Impl>(io, limits, std::move(handler))) {
  beast::error_code error;
  const auto address = asio::ip::make_address(listen.host == "localhost" ? "127.0.0.1" : listen.host, error);
  if (error) Fail("cannot listen on {}: not an IP address", listen.host);
  const tcp::endpoint endpoint(address, listen.port);
  auto& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  if (error) Fail("cannot listen on {}:{}: {}", listen.host, listen.port, error.message());
  asio::co_spawn(
      io, [impl = impl_]() { return impl->Accept(); }, asio::detached);
}

HttpServer::~HttpServer() { StopAccepting(); }

uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::StopAccepting() {
  beast::error_code ignored;
  impl_->acceptor.close(ignored);
}

}  // namespace quire
