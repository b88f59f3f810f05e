// Tests the clients' shares of the I/O thread while workers compute: which client is charged for each handler, and
// which client must wait because it has used its share.
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

/// More processor time than a client may take at one time (WorkShares).
constexpr std::chrono::milliseconds kMuch(350);

const IoShares::Client kAlice{"alice", true}, kBob{"bob", true}, kStranger{"192.0.2.1"};

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
  bool Rests(const IoShares::Client& client) const {
    return shares_.RestOf(client) > IoShares::Clock::duration::zero();
  }

  bool busy_ = true;
  asio::io_context io_;
  IoShares& shares_ = asio::use_service<IoShares>(io_);
};

TEST_F(IoSharesTest, Client_Rests_AfterItsRequestsTookMoreThanItsShare) {
  Handle([this] {
    shares_.Serve(kAlice);
    Compute(kMuch);
  });
  EXPECT_TRUE(Rests(kAlice));
  EXPECT_FALSE(Rests(kBob));
  EXPECT_LE(shares_.RestOf(kAlice), IoShares::kLongestRest);
}

TEST_F(IoSharesTest, Handler_IsChargedToTheLastClient_WhenItServesSeveral) {
  Handle([this] {
    shares_.Serve(kStranger);
    Compute(kMuch / 2);
    shares_.Serve(kAlice);
    Compute(kMuch / 2);
  });
  EXPECT_TRUE(Rests(kAlice));
  EXPECT_FALSE(Rests(kStranger));
}

TEST_F(IoSharesTest, LaterHandlers_AreNotCharged_WhenTheyServeNoClient) {
  Handle([this] { shares_.Serve(kAlice); });
  Handle([] { Compute(kMuch); });
  EXPECT_FALSE(Rests(kAlice));
}

TEST_F(IoSharesTest, Keys_DoNotRest_HoweverManyNetworksTakeTime) {
  const auto alice_asks = [this] {
    shares_.Serve(kAlice);
    Compute(std::chrono::milliseconds(1));
  };
  Handle(alice_asks);
  for (int i = 0; i < 1000; ++i) {
    Handle([this, i] {
      shares_.Serve({"192.0.2." + std::to_string(i)});
      Compute(std::chrono::microseconds(300));
    });
  }
  Handle([this] {
    shares_.Serve({"192.0.2.999"});
    Compute(kMuch);
  });
  Handle(alice_asks);
  EXPECT_FALSE(Rests(kAlice));
  EXPECT_TRUE(Rests({"192.0.2.999"}));
}

TEST_F(IoSharesTest, IoShares_ChargesNoTime_WhenNoWorkerComputes) {
  busy_ = false;
  Handle([this] {
    shares_.Serve(kAlice);
    Compute(kMuch);
  });
  EXPECT_FALSE(Rests(kAlice));
  busy_ = true;
  EXPECT_FALSE(Rests(kAlice)) << "time was charged that no worker missed";
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

TEST_F(IoSharesTest, Server_ServesOtherClientsFirst_WhenOneClientRests) {
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
