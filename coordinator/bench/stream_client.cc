#include "coordinator/bench/stream_client.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "comm/error.h"
#include "comm/json.h"

// House rule for coroutines: see coordinator/api/connection.cc.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

double Since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void ReadEvent(const std::string& data, StreamTimes& times) {
  const Json event = ParseJson(data, "an event");
  if (event.contains("error")) times.problem = DumpJson(event["error"]);
  if (event.contains("choices") && !event["choices"].empty()) times.events.push_back(Since(times.begin));
  if (event.contains("usage") && event["usage"].is_object())
    times.tokens = event["usage"].value("completion_tokens", 0);
}

/// Reads the whole lines of `text` from `at` on; returns where the first one begins that is not whole yet.
size_t ReadLines(const std::string& text, size_t at, StreamTimes& times) {
  constexpr std::string_view kData = "data: {";
  for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    if (text.compare(at, kData.size(), kData) == 0) ReadEvent(text.substr(at + 6, end - at - 6), times);
  }
  return at;
}

http::request<http::string_body> Completion(const StreamTarget& target, std::string body) {
  http::request<http::string_body> request{http::verb::post, "/v1/completions", 11};
  request.set(http::field::host, target.host);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!target.authorization.empty()) request.set(http::field::authorization, target.authorization);
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

}  // namespace

asio::awaitable<void> ReadStream(StreamTarget target, std::string body, StreamTimes& times) {
  times.begin = std::chrono::steady_clock::now();
  const auto executor = co_await asio::this_coro::executor;
  tcp::socket socket(executor);
  auto [connect_error] = co_await socket.async_connect(target.endpoint, kToken);
  if (connect_error) {
    times.problem = fmt::format("cannot connect to {}: {}", target.host, connect_error.message());
    co_return;
  }
  const auto request = Completion(target, std::move(body));
  auto [write_error, written] = co_await http::async_write(socket, request, kToken);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  beast::error_code error = write_error;
  size_t read = 0;
  while (!error && !parser.is_done()) {
    auto [read_error, count] = co_await http::async_read_some(socket, buffer, parser, kToken);
    error = read_error;
    if (!parser.is_header_done() || parser.get().result() != http::status::ok) continue;
    try {
      read = ReadLines(parser.get().body(), read, times);
    } catch (const std::exception& e) {
      times.problem = e.what();
      co_return;
    }
  }
  times.end = Since(times.begin);
  if (error) {
    times.problem = fmt::format("the connection ended early: {}", error.message());
  } else if (parser.get().result() != http::status::ok) {
    times.problem = fmt::format("status {}: {}", parser.get().result_int(), parser.get().body());
  } else if (times.problem.empty() && times.events.empty()) {
    times.problem = "no token came";
  }
  if (times.tokens == 0) times.tokens = static_cast<int>(times.events.size());
}

}  // namespace quire
