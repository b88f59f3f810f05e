// Clients' shares of the I/O thread while workers compute: which handlers are charged to which client, and which client
// rests.
#include "coordinator/http/io_shares.h"

#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <thread>
#include <vector>

#include "comm/base/thread_time.h"
#include "coordinator/http/http_server.h"

namespace quire {
namespace {

namespace asio = boost::asio;

/// More processor time than a client may take at once (WorkShares).
constexpr std::chrono::milliseconds kMuch(350);

void Compute(std::chrono::nanoseconds time) {
  for (const auto begin = ThreadTime(); ThreadTime() - begin < time;) {
  }
}

class IoSharesTest : public testing::Test {
 protected:
  IoSharesTest() {
    shares_.RestWhile([this] { return busy_; });
  }
  void Handle(const std::function<void()>& handler) {
    asio::post(io_, handler);
    RunIo(io_);
    io_.restart();
  }
  bool Rests(const std::string& client) const { return shares_.RestOf(client) > IoShares::Clock::duration::zero(); }

  bool busy_ = true;
  asio::io_context io_;
  IoShares& shares_ = asio::use_service<IoShares>(io_);
};

TEST_F(IoSharesTest, Client_Rests_AfterItsRequestsTookMoreThanItsShare) {
  Handle([this] {
    shares_.Serve("alice");
    Compute(kMuch);
  });
  EXPECT_TRUE(Rests("alice"));
  EXPECT_FALSE(Rests("bob"));
  EXPECT_LE(shares_.RestOf("alice"), IoShares::kLongestRest);
}

TEST_F(IoSharesTest, Handler_IsChargedToTheLastClient_WhenItServesSeveral) {
  Handle([this] {
    shares_.Serve("the network");
    Compute(kMuch / 2);
    shares_.Serve("alice");
    Compute(kMuch / 2);
  });
  EXPECT_TRUE(Rests("alice"));
  EXPECT_FALSE(Rests("the network"));
}

TEST_F(IoSharesTest, LaterHandlers_AreNotCharged_WhenTheyServeNobody) {
  Handle([this] { shares_.Serve("alice"); });
  Handle([] { Compute(kMuch); });
  EXPECT_FALSE(Rests("alice"));
}

TEST_F(IoSharesTest, NobodyRests_WhileNoWorkerComputes) {
  busy_ = false;
  Handle([this] {
    shares_.Serve("alice");
    Compute(kMuch);
  });
  EXPECT_FALSE(Rests("alice"));
  busy_ = true;
  EXPECT_FALSE(Rests("alice")) << "time was charged that no worker missed";
}

/// Sends one request in the name of a client.
void Ask(asio::ip::tcp::socket& socket, const std::string& client) {
  asio::write(socket, asio::buffer("GET /" + client + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

/// Reads until `count` answers have arrived. An answer ends with the sign "#".
void AwaitAnswers(asio::ip::tcp::socket& socket, int count) {
  for (std::string read(1, ' '); count > 0;) {
    asio::read(socket, asio::buffer(read));
    count -= read == "#";
  }
}

TEST_F(IoSharesTest, Server_ServesOtherClientsFirst_WhenOneRests) {
  std::vector<std::string> served;
  const HttpService service{
      .admit =
          [](HttpRequest& head) {
            head.share = head.path.substr(1);
            return std::optional<HttpResponse>();
          },
      .handle = [&served](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
        if (served.empty()) Compute(kMuch);
        served.push_back(request.share);
        HttpResponse answer{.status = 200, .body = "#"};
        co_await responder.Send(std::move(answer));
      }};
  HttpServer server(io_, {"127.0.0.1", 0}, {}, service);
  std::thread thread([this] { RunIo(io_); });
  asio::io_context here;
  asio::ip::tcp::socket alice(here), bob(here);
  for (auto* socket : {&alice, &bob}) socket->connect({asio::ip::make_address("127.0.0.1"), server.port()});
  Ask(alice, "alice");
  AwaitAnswers(alice, 1);
  Ask(alice, "alice");
  Ask(bob, "bob");
  AwaitAnswers(bob, 1);
  AwaitAnswers(alice, 1);
  io_.stop();
  thread.join();
  EXPECT_EQ(served, (std::vector<std::string>{"alice", "bob", "alice"}));
}

}  // namespace
}  // namespace quire
