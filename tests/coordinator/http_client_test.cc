#include "coordinator/client/http_client.h"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

/// A server that sends a text, then `drops` single bytes 5 ms apart, and then nothing more.
class Dripper {
 public:
  Dripper(asio::io_context& io, std::string said, int drops)
      : acceptor_(io, {asio::ip::address_v4::loopback(), 0}), server_(io), timer_(io), said_(std::move(said)) {
    acceptor_.async_accept(server_, [this, drops](const boost::system::error_code& error) {
      ASSERT_FALSE(error);
      asio::write(server_, asio::buffer(said_));
      Drip(drops);
    });
  }
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  void Drip(int drops) {
    if (drops == 0) return;
    timer_.expires_after(std::chrono::milliseconds(5));
    timer_.async_wait([this, drops](const boost::system::error_code&) {
      boost::system::error_code gone;
      asio::write(server_, asio::buffer("x", 1), gone);
      if (!gone) Drip(drops - 1);
    });
  }

  tcp::acceptor acceptor_;
  tcp::socket server_;
  asio::steady_timer timer_;
  std::string said_;
};

ClientAnswer AnswerOf(const std::string& said, int drops, std::chrono::milliseconds patience,
                      std::chrono::milliseconds pace, const OnBody& on_body) {
  asio::io_context io;
  Dripper server(io, said, drops);
  const ClientRequest request{.server = {"127.0.0.1", std::to_string(server.endpoint().port())},
                              .endpoint = server.endpoint(),
                              .path = "/",
                              .body = "{}",
                              .patience = patience,
                              .pace = pace};
  ClientAnswer answer;
  asio::co_spawn(io, Send(request, on_body), [&](const std::exception_ptr&, ClientAnswer got) { answer = got; });
  io.run();
  return answer;
}

using std::chrono::milliseconds;
using testing::HasSubstr;
constexpr const char* kWhole = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
constexpr const char* kChunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n";

// A server that sends nothing, or stops in the middle of an answer, must not block a client for ever.
TEST(HttpClientTest, Client_GivesUp_WhenNoBytesArrive) {
  EXPECT_THAT(AnswerOf("", 0, milliseconds(50), milliseconds(10'000), {}).problem,
              HasSubstr("nothing came for 0.05 s"));
  EXPECT_THAT(AnswerOf(kWhole, 0, milliseconds(50), milliseconds(10'000), {}).problem,
              HasSubstr("the answer did not come within 0.05 s"));
  EXPECT_THAT(AnswerOf(kWhole, 0, milliseconds(50), milliseconds(10'000), [](std::string&) {}).problem,
              HasSubstr("nothing came for 0.05 s"));
}

// A server that sent a byte now and then could block a batch for any length of time.
TEST(HttpClientTest, Client_GivesUp_WhenAnAnswerArrivesTooSlowly) {
  const int endless = 4000;
  EXPECT_THAT(AnswerOf(kWhole, endless, milliseconds(10'000), milliseconds(200), {}).problem,
              HasSubstr("less than 204 bytes came within 0.2 s"));
  EXPECT_THAT(AnswerOf(kChunked, endless, milliseconds(300), milliseconds(50), {}).problem,
              HasSubstr("the answer did not come within 0.3 s"));
  EXPECT_THAT(AnswerOf("HTTP/1.1 200 OK\r\nX: ", endless, milliseconds(300), milliseconds(50), {}).problem,
              HasSubstr("nothing came for 0.3 s"))
      << "a head is there once it is whole";
}

// The parser stores a chunk's extension until the extension's line ends.
TEST(HttpClientTest, Client_EndsAnAnswer_WhoseChunkExtensionHasNoEnd) {
  const std::string endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=" + std::string(80 << 10, 'x');
  EXPECT_THAT(AnswerOf(endless, 0, milliseconds(10'000), milliseconds(10'000), {}).problem,
              HasSubstr("buffer overflow"));
}

TEST(HttpClientTest, Client_AcceptsAnAnswer_ThatKeepsPaceOrIsStreamed) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n";
  EXPECT_EQ(AnswerOf(head, 40, milliseconds(20'000), milliseconds(10'000), {}).problem, "");
  size_t seen = 0;
  const OnBody count = [&](std::string& body) { seen = body.size(); };
  EXPECT_EQ(AnswerOf(head, 40, milliseconds(2'000), milliseconds(10), count).problem, "") << "slower than the pace";
  EXPECT_EQ(seen, 40u);
}

}  // namespace
}  // namespace quire
