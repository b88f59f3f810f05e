// Requests of many connections: how many begin between two looks at the sockets, and whose.
#include "coordinator/api/http/request_turns.h"

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
  /// Looks at how many have begun each time that timers, and so sockets, are looked at.
  asio::awaitable<void> Look() {
    asio::steady_timer timer(io_);
    for (size_t seen = 0; begun_.size() < wanted_;) {
      timer.expires_after(asio::steady_timer::duration::zero());
      co_await timer.async_wait(asio::use_awaitable);
      most_ = std::max(most_, begun_.size() - seen);
      seen = begun_.size();
    }
  }

  /// To the end, which comes soon unless requests wait for ever.
  void Run() {
    io_.restart();
    io_.run_for(std::chrono::minutes(1));
  }

  asio::io_context io_;
  RequestTurns turns_{io_.get_executor()};
  std::vector<std::string> begun_;  // addresses, in the order of their requests' beginnings
  size_t wanted_ = 0, most_ = 0;
};

TEST_F(RequestTurnsTest, AFewBeginAtOnceAndTheOthersAfterALookAtTheSockets) {
  wanted_ = 1000;
  Ask("192.0.2.1", 1000);
  asio::co_spawn(io_, Look(), asio::detached);
  Run();
  EXPECT_EQ(begun_.size(), 1000u);
  EXPECT_LE(most_, 2 * 16u);
}

TEST_F(RequestTurnsTest, ANetworksFirstIsBehindOneOfEach) {
  Ask("192.0.2.1", 500);
  Ask("192.0.2.2", 500);
  Ask("192.0.2.3", 1);
  Run();
  ASSERT_EQ(begun_.size(), 1001u);
  const auto place = std::ranges::find(begun_, "192.0.2.3") - begun_.begin();
  EXPECT_LT(place, 16 + 3) << "behind those that began at once, and one of either network";
}

TEST_F(RequestTurnsTest, AloneARequestWaitsForNobody) {
  for (int i = 0; i < 100; ++i) {
    Ask("192.0.2.1", 1);
    Run();
    EXPECT_EQ(begun_.size(), static_cast<size_t>(i + 1));
  }
}

}  // namespace
}  // namespace quire
