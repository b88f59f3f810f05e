// Tests of the turns of requests from many connections: how many requests begin between two polls of the sockets, and
// in which order.
#include "coordinator/http/request_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace quire {
namespace {

namespace asio = boost::asio;

class RequestTurnsTest : public testing::Test {
 protected:
  void Ask(const std::string& address, int count) {
    for (int i = 0; i < count; ++i) asio::co_spawn(io_, One(address), asio::detached);
  }
  asio::awaitable<void> One(std::string address) {
    const auto from = asio::ip::make_address(address);
    co_await turns_.Await(from);
    begun_.push_back(address);
  }
  /// Records, at each poll of timers and sockets, how many requests have begun since the last poll.
  asio::awaitable<void> Look() {
    asio::steady_timer timer(io_);
    for (size_t seen = 0; begun_.size() < wanted_;) {
      timer.expires_after(asio::steady_timer::duration::zero());
      co_await timer.async_wait(asio::use_awaitable);
      most_ = std::max(most_, begun_.size() - seen);
      seen = begun_.size();
    }
  }

  /// Runs until all requests have begun, or for one minute if some wait forever.
  void Run() {
    io_.restart();
    io_.run_for(std::chrono::minutes(1));
  }

  asio::io_context io_;
  RequestTurns turns_{io_.get_executor()};
  std::vector<std::string> begun_;  // addresses in the order in which their requests began
  size_t wanted_ = 0, most_ = 0;
};

TEST_F(RequestTurnsTest, AtMost32Requests_Begin_BetweenTwoPollsOfTheSockets) {
  wanted_ = 1000;
  Ask("192.0.2.1", 1000);
  asio::co_spawn(io_, Look(), asio::detached);
  Run();
  EXPECT_EQ(begun_.size(), 1000u);
  EXPECT_LE(most_, 2 * 16u);
}

TEST_F(RequestTurnsTest, FirstRequestOfANetwork_WaitsForAtMostOneRequestOfEachOtherNetwork) {
  Ask("192.0.2.1", 500);
  Ask("192.0.2.2", 500);
  Ask("192.0.2.3", 1);
  Run();
  ASSERT_EQ(begun_.size(), 1001u);
  const auto place = std::ranges::find(begun_, "192.0.2.3") - begun_.begin();
  EXPECT_LT(place, 16 + 3) << "behind those that began at once, and one of either network";
}

TEST_F(RequestTurnsTest, SingleRequest_DoesNotWait) {
  for (int i = 0; i < 100; ++i) {
    Ask("192.0.2.1", 1);
    Run();
    EXPECT_EQ(begun_.size(), static_cast<size_t>(i + 1));
  }
}

}  // namespace
}  // namespace quire
