#include "coordinator/api/http/handshake_pace.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using boost::asio::ip::make_address;
using std::chrono::milliseconds;

class HandshakePaceTest : public testing::Test {
 protected:
  /// Milliseconds until the turn of one more handshake with the network.
  int64_t OfNetwork(const char* network) {
    return std::chrono::duration_cast<milliseconds>(pace_.TurnOfNetwork(make_address(network), now_) - now_).count();
  }
  int64_t OfAll() { return std::chrono::duration_cast<milliseconds>(pace_.TurnOfAll(now_) - now_).count(); }

  HandshakePace pace_;
  HandshakePace::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(HandshakePaceTest, ABurstBeginsAtOnceAndTheRestIsSpaced) {
  for (int i = 0; i < HandshakePace::kBurst; ++i) EXPECT_EQ(OfNetwork("192.0.2.1"), 0) << i;
  for (int i = 1; i <= 1000; ++i) EXPECT_EQ(OfNetwork("192.0.2.1"), 1000 * i / HandshakePace::kPerSecondOfNetwork) << i;
  EXPECT_EQ(OfNetwork("192.0.2.2"), 0) << "another network does not wait for this one";
  now_ += milliseconds(1000 * (1000 + HandshakePace::kBurst) / HandshakePace::kPerSecondOfNetwork);
  for (int i = 0; i < HandshakePace::kBurst; ++i)
    EXPECT_EQ(OfNetwork("192.0.2.1"), 0) << "an idle one has a burst again";
  EXPECT_GT(OfNetwork("192.0.2.1"), 0);
}

TEST_F(HandshakePaceTest, AllNetworksTogetherHaveABoundToo) {
  for (int i = 0; i < HandshakePace::kBurst; ++i) EXPECT_EQ(OfAll(), 0) << i;
  for (int i = 1; i <= 400; ++i) EXPECT_EQ(OfAll(), 1000 * i / HandshakePace::kPerSecond) << i;
}

TEST_F(HandshakePaceTest, ANetworkThatWaitsIsNotForgottenForOthers) {
  for (int i = 0; i < 1000; ++i) OfNetwork("192.0.2.1");
  for (int i = 0; i < 3000; ++i) OfNetwork(("2001:db8:0:" + std::to_string(i) + "::").c_str());
  EXPECT_GT(OfNetwork("192.0.2.1"), 4000);
}

}  // namespace
}  // namespace quire
