#include "coordinator/http/handshake_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/http/handshake_turns.h"

namespace quire {
namespace {

using boost::asio::ip::make_address;
using std::chrono::milliseconds;

class HandshakePaceTest : public testing::Test {
 protected:
  void Wait(const std::string& address, int count) {
    for (int i = 0; i < count; ++i) pace_.Wait(++last_, TurnOf(make_address(address)));
  }
  /// Returns the milliseconds until the next handshake may begin.
  int64_t UntilNext() const { return std::chrono::duration_cast<milliseconds>(pace_.Next(now_) - now_).count(); }
  /// Lets waiting handshakes begin one after another, until this ticket's handshake begins. Returns the milliseconds
  /// that pass.
  int64_t Until(HandshakePace::Ticket ticket) {
    const auto begin = now_;
    for (;;) {
      now_ = pace_.Next(now_);
      if (pace_.Begin(now_) == ticket) return std::chrono::duration_cast<milliseconds>(now_ - begin).count();
    }
  }

  HandshakePace pace_;
  HandshakePace::Ticket last_ = 0;
  HandshakePace::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(HandshakePaceTest, Handshakes_BeginImmediatelyUpToABurst_ThenAtASteadyRate) {
  Wait("192.0.2.1", 500);
  EXPECT_EQ(Until(100), 0);
  EXPECT_EQ(Until(500), 1000);
  EXPECT_FALSE(pace_.waiting());
  now_ += HandshakePace::kBurst;
  Wait("192.0.2.1", 101);
  EXPECT_EQ(Until(last_ - 1), 0) << "an idle port takes a burst again";
  EXPECT_GT(UntilNext(), 0);
}

TEST_F(HandshakePaceTest, Handshakes_TakeABoundedShareOfTheThread_WhateverTheirCost) {
  pace_.Cost(milliseconds(4));
  Wait("192.0.2.1", 125);
  EXPECT_EQ(Until(25), 0) << "100 ms of work at a stretch";
  EXPECT_EQ(Until(125), 1000) << "0.4 of the thread";
  pace_.Cost(milliseconds(400));
  now_ += std::chrono::seconds(2);
  Wait("192.0.2.1", 2);
  EXPECT_EQ(Until(last_ - 1), 0);
  EXPECT_EQ(Until(last_), 1000);
  pace_.Cost(std::chrono::microseconds(1));
  now_ += std::chrono::seconds(2);
  Wait("192.0.2.1", 500);
  EXPECT_EQ(Until(last_), 1000) << "400 a second at the most";
}

TEST_F(HandshakePaceTest, WithdrawnHandshakes_DelayNoOtherHandshake) {
  Wait("192.0.2.1", 200);
  Wait("192.0.2.2", 1);
  for (HandshakePace::Ticket ticket = 1; ticket < 200; ++ticket) pace_.Withdraw(ticket, make_address("192.0.2.1"));
  pace_.Withdraw(1, make_address("192.0.2.1"));  // a second withdrawal does nothing
  EXPECT_EQ(Until(200), 0);
  EXPECT_EQ(Until(201), 0);
  EXPECT_FALSE(pace_.waiting());
  Wait("192.0.2.1", 1);
  pace_.Withdraw(last_, make_address("192.0.2.1"));
  EXPECT_FALSE(pace_.waiting());
}

TEST_F(HandshakePaceTest, NewAddress_WaitsForAtMostOneHandshakePerNetwork) {
  for (const char* flooding : {"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"}) Wait(flooding, 1024);
  Until(200);
  Wait("192.0.2.4", 1);
  EXPECT_LE(Until(last_), 5 * 1000 / 400);
  Wait("192.0.2.4", 1);
  EXPECT_LE(Until(last_), 5 * 1000 / 400) << "and so is its next one";
}

TEST_F(HandshakePaceTest, AddressesOfOneIpv6Customer_TakeTurnsAsOneAddress) {
  for (int i = 0; i < 1000; ++i) Wait("2001:db8:7:" + std::to_string(i) + "::1", 1);
  for (int i = 1; i < 200; ++i) Wait("127.0.0." + std::to_string(i), 5);
  Until(150);
  Wait("2001:db8:8::1", 1);
  EXPECT_LE(Until(last_), 3 * 1000 / 400);
  EXPECT_EQ(TurnOf(make_address("::ffff:192.0.2.1")), make_address("192.0.2.1"));
  EXPECT_NE(TurnOf(make_address("192.0.2.1")), TurnOf(make_address("192.0.2.2")));
}

TEST_F(HandshakePaceTest, Take_DoesNotDelayTheNextHandshake_UntilBeginIsCalled) {
  Wait("192.0.2.1", 2);
  for (int i = 0; i < 500; ++i) pace_.Charge(now_);
  const int64_t before = UntilNext();
  pace_.Take();
  EXPECT_EQ(UntilNext(), before);
  pace_.Begin(now_);
  EXPECT_GT(UntilNext(), before);
}

class HandshakeQueueTest : public testing::Test {
 protected:
  /// Begins `count` handshakes of one address, one after another. `ended` says whether their clients have left.
  void Ask(const std::string& address, int count, bool ended) {
    for (int i = 0; i < count; ++i)
      boost::asio::co_spawn(io_, One(make_address(address), ended), boost::asio::detached);
    io_.restart();
    io_.poll();
  }
  boost::asio::awaitable<void> One(boost::asio::ip::address address, bool ended) {
    std::function<bool()> has_ended = [ended] { return ended; };
    const size_t number = results_.size();
    results_.emplace_back();
    const auto ticket = turns_.NewTicket();
    const bool may = co_await turns_.Await(ticket, address, std::move(has_ended));
    results_[number] = may;
  }
  int Count(std::optional<bool> result) const { return static_cast<int>(std::ranges::count(results_, result)); }

  boost::asio::io_context io_;
  HandshakeTurns turns_{io_.get_executor()};
  std::vector<std::optional<bool>> results_;  // results in the order of requests; nullopt: the handshake waits
};

TEST_F(HandshakeQueueTest, ClientsThatLeft_AreSkipped) {
  turns_.Cost(std::chrono::milliseconds(100));  // 4 handshakes a second
  Ask("192.0.2.1", 1, false);
  ASSERT_EQ(results_.front(), true);
  for (int i = 0; i < 100; ++i) Ask("192.0.2." + std::to_string(2 + i), 1, true);
  Ask("192.0.2.200", 1, false);
  while (!results_.back()) io_.run_one();
  EXPECT_EQ(results_.back(), true);
  EXPECT_EQ(Count(false), 100);
}

TEST_F(HandshakeQueueTest, OldestWaitingClientsOfANetwork_AreRefused_WhenMoreWaitThanTheQueueHolds) {
  turns_.Cost(std::chrono::seconds(4));  // one handshake in 10 s, so one client may wait
  Ask("127.0.0.1", 1, false);
  Ask("127.0.0.1", 30, false);
  EXPECT_EQ(Count(false), 29);
  EXPECT_EQ(results_[1], false);
  EXPECT_EQ(results_.back(), std::nullopt) << "the newest waits";
  Ask("192.0.2.1", 1, false);
  EXPECT_EQ(Count(false), 29) << "another network has a place of its own";
}

TEST(HandshakeTurnsTest, OldestOpenHandshake_Ends_WhenMoreThanTheLimitAreOpen) {
  boost::asio::io_context io;
  HandshakeTurns turns(io.get_executor());
  std::vector<size_t> gave_way;
  std::vector<HandshakeTurns::Open> open;
  const auto begin = [&](size_t number) {
    open.push_back(turns.Enter([&gave_way, number] { gave_way.push_back(number); }));
  };
  for (size_t i = 0; i < HandshakeTurns::kMostOpen; ++i) begin(i);
  EXPECT_TRUE(gave_way.empty());
  begin(1000);
  begin(1001);  // the handshakes that lost their places have not ended yet
  EXPECT_EQ(gave_way, (std::vector<size_t>{0, 1}));
  for (size_t i = 0; i < 10; ++i) open[i].reset();
  for (size_t i = 0; i < 8; ++i) begin(2000 + i);
  EXPECT_EQ(gave_way, (std::vector<size_t>{0, 1})) << "there was room";
  begin(3000);
  EXPECT_EQ(gave_way, (std::vector<size_t>{0, 1, 10}));
}

TEST(NetworkOfTest, NetworkOf_ReturnsAnIpv4AddressOrAnIpv6Network) {
  const auto network = [](const char* address) { return NetworkOf(make_address(address)).to_string(); };
  EXPECT_EQ(network("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(network("2001:db8:1:2::1"), "2001:db8:1:2::");
  EXPECT_EQ(network("2001:db8:1:3::1"), "2001:db8:1:3::");
  EXPECT_EQ(network("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(network("::1"), "::1");
}

}  // namespace
}  // namespace quire
