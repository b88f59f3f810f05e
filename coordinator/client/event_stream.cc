#include "coordinator/client/event_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "comm/base/error.h"
#include "comm/base/json.h"

// House rule for coroutines: see coordinator/api/http/connection.cc.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using OnEvent = std::function<void(const Json&)>;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

// An answer is cut off beyond this, whoever sends it.
constexpr uint64_t kMostAnswerBytes = 64u << 20;
// This much is shown of a refusal that has no form.
constexpr size_t kMostRefusalBytes = 2000;

/// Hands out the whole lines of `text` that are events, and takes them away; of what stays, `searched` bytes are known
/// to have no end of a line.
void TakeLines(std::string& text, size_t& searched, const OnEvent& on_event) {
  constexpr std::string_view kData = "data: {";
  size_t at = 0;
  for (size_t end; (end = text.find('\n', std::max(at, searched))) != std::string::npos; at = end + 1) {
    if (text.compare(at, kData.size(), kData) == 0)
      on_event(ParseJson(std::string_view(text).substr(at + 6, end - at - 6), "an event"));
  }
  text.erase(0, at);
  searched = text.size();
}

http::request<http::string_body> HttpRequestOf(const EventRequest& request) {
  http::request<http::string_body> out{http::verb::post, request.path, 11};
  out.set(http::field::host, request.server.authority());
  out.set(http::field::content_type, "application/json");
  out.set(http::field::connection, "close");
  if (!request.authorization.empty()) out.set(http::field::authorization, request.authorization);
  out.body() = request.body;
  out.prepare_payload();
  return out;
}

/// What a refusal says, in OpenAI's form if it has that.
std::string RefusalOf(const http::response<http::string_body>& response) {
  try {
    const Json body = ParseJson(response.body(), "the answer");
    const bool has_form = body.is_object() && body.contains("error") && body["error"].is_object();
    if (has_form && body["error"].contains("message") && body["error"]["message"].is_string())
      return fmt::format("status {}: {}", response.result_int(), body["error"]["message"].get<std::string>());
  } catch (const Error&) {  // no JSON: shown as it is
  }
  return fmt::format("status {}: {}", response.result_int(), response.body().substr(0, kMostRefusalBytes));
}

template <class Stream>
asio::awaitable<std::string> Exchange(Stream& stream, const EventRequest& request, const OnEvent& on_event) {
  const auto written = HttpRequestOf(request);
  auto [error, size] = co_await http::async_write(stream, written, kToken);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMostAnswerBytes);
  size_t searched = 0;
  while (!error && !parser.is_done()) {
    auto [read_error, count] = co_await http::async_read_some(stream, buffer, parser, kToken);
    error = read_error;
    if (!parser.is_header_done() || parser.get().result() != http::status::ok) continue;
    try {
      TakeLines(parser.get().body(), searched, on_event);
    } catch (const std::exception& broken) {
      co_return broken.what();
    }
  }
  if (error) co_return fmt::format("the connection ended early: {}", error.message());
  co_return parser.get().result() == http::status::ok ? "" : RefusalOf(parser.get());
}

}  // namespace

asio::awaitable<std::string> ReadEvents(const EventRequest& request, const OnEvent& on_event) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::socket socket(executor);
  auto [connect_error] = co_await socket.async_connect(request.endpoint, kToken);
  if (connect_error)
    co_return fmt::format("cannot connect to {}: {}", request.server.authority(), connect_error.message());
  std::string problem;
  if (!request.server.encrypted) {
    problem = co_await Exchange(socket, request, on_event);
    co_return problem;
  }
  ssl::context context(ssl::context::tls_client);
  boost::system::error_code trust_error;
  context.set_default_verify_paths(trust_error);
  ssl::stream<tcp::socket&> encrypted(socket, context);
  encrypted.set_verify_mode(ssl::verify_peer);
  encrypted.set_verify_callback(ssl::host_name_verification(request.server.host));
  ::SSL_set_tlsext_host_name(encrypted.native_handle(), request.server.host.c_str());
  auto [tls_error] = co_await encrypted.async_handshake(ssl::stream_base::client, kToken);
  if (tls_error) co_return fmt::format("{}: {}", request.server.authority(), tls_error.message());
  problem = co_await Exchange(encrypted, request, on_event);
  co_return problem;
}

}  // namespace quire
