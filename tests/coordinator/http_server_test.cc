#include "coordinator/http/http_server.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <thread>

#include "coordinator/http/http_head.h"

namespace quire {
namespace {

namespace asio = boost::asio;

/// Sends half of an answer, then throws.
asio::awaitable<void> FailLate(HttpRequest&, HttpResponder& responder) {
  co_await responder.BeginPieces();
  std::string half = "[1,";
  co_await responder.Write(std::move(half));
  HttpResponse failure = ErrorResponse(429, "too much work is waiting");
  co_await responder.Send(std::move(failure));
}

TEST(HttpServerTest, Answer_IsCut_WhenItFailsAfterItHasBegun) {
  asio::io_context io;
  HttpServer server(io, {"127.0.0.1", 0}, {},
                    {.admit = [](HttpRequest&) { return std::optional<HttpResponse>(); }, .handle = FailLate});
  std::thread thread([&io] { io.run(); });
  asio::io_context here;
  asio::ip::tcp::socket client(here);
  client.connect({asio::ip::make_address("127.0.0.1"), server.port()});
  asio::write(client, asio::buffer(std::string_view("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  std::string answer;
  boost::system::error_code end;
  asio::read(client, asio::dynamic_buffer(answer), end);
  io.stop();
  thread.join();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n3\r\n[1,\r\n")) << answer;
  EXPECT_EQ(answer.find("429"), std::string::npos) << answer;
}

/// Sends an answer of four pieces. After each piece, the answer says how often posted tasks have run on the thread.
asio::awaitable<void> WriteAtLength(HttpRequest&, HttpResponder& responder) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto turns = std::make_shared<int>(0);
  co_await responder.BeginPieces();
  for (int i = 0; i < 4; ++i) {
    asio::post(executor, [turns] { ++*turns; });
    std::string piece(64 << 10, 'x');
    co_await responder.Write(std::move(piece));
    std::string said = " turns:" + std::to_string(*turns);
    co_await responder.Write(std::move(said));
  }
  co_await responder.EndStream();
}

TEST(HttpServerTest, OtherTasks_RunOnTheThread_WhileALongAnswerIsSent) {
  asio::io_context io;
  HttpServer server(io, {"127.0.0.1", 0}, {},
                    {.admit = [](HttpRequest&) { return std::optional<HttpResponse>(); }, .handle = WriteAtLength});
  std::thread thread([&io] { io.run(); });
  asio::io_context here;
  asio::ip::tcp::socket client(here);
  client.connect({asio::ip::make_address("127.0.0.1"), server.port()});
  asio::write(client, asio::buffer(std::string_view("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")));
  std::string answer;
  boost::system::error_code end;
  asio::read(client, asio::dynamic_buffer(answer), end);
  io.stop();
  thread.join();
  for (int i = 1; i <= 4; ++i)
    EXPECT_NE(answer.find(" turns:" + std::to_string(i)), std::string::npos) << "every 64 KiB: " << i;
}

TEST(HttpServerTest, IsFolded_FindsFoldedHeaderLines) {
  EXPECT_FALSE(IsFolded("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"));
  EXPECT_TRUE(IsFolded("GET / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n"));
  EXPECT_TRUE(IsFolded("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\t\r\n\r\n"));
}

}  // namespace
}  // namespace quire
