#include "coordinator/http/connection_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire {
namespace {

constexpr int kMost = 12, kMostPerAddress = 8;

class ConnectionPlacesTest : public testing::Test {
 protected:
  using Place = std::unique_ptr<ConnectionPlaces::Place>;

  Place Take(const std::string& address, const std::string& name = "") {
    return places_.Take(boost::asio::ip::make_address(address), [this, name] { gave_way_.push_back(name); });
  }
  /// Opens this many silent connections from an address and keeps them open.
  void Hold(const std::string& address, int count) {
    for (int i = 0; i < count; ++i) held_.push_back(Take(address, address + "/" + std::to_string(i)));
  }

  ConnectionPlaces places_{kMost, kMostPerAddress};
  std::vector<std::string> gave_way_;
  std::vector<Place> held_;
};

TEST_F(ConnectionPlacesTest, Take_LimitsConnectionsPerAddress_AndPerNetworkForIpv6) {
  Hold("2001:db8::1", kMostPerAddress);
  EXPECT_EQ(Take("2001:db8::2"), nullptr);
  EXPECT_NE(Take("2001:db8:0:1::1"), nullptr);
  EXPECT_TRUE(gave_way_.empty());
}

TEST_F(ConnectionPlacesTest, Take_LimitsLoopbackConnections_OnlyByTheTotal) {
  Hold("127.0.0.1", kMost);
  EXPECT_EQ(places_.taken(), kMost);
  EXPECT_EQ(Take("127.0.0.2"), nullptr) << "loopback addresses are one network";
  EXPECT_TRUE(gave_way_.empty());
}

TEST_F(ConnectionPlacesTest, EndOneSilent_EndsTheLongestSilentConnection_OfTheNetworkWithMostSilentConnections) {
  EXPECT_EQ(places_.most_silent(), 0u);
  Hold("192.0.2.1", 2);
  Hold("192.0.2.2", 3);
  held_[2]->ServeClient();
  held_[3]->ServeClient();
  EXPECT_EQ(places_.most_silent(), 2u);
  places_.EndOneSilent();
  EXPECT_EQ(gave_way_, (std::vector<std::string>{"192.0.2.1/0"}));
  places_.EndOneSilent();
  places_.EndOneSilent();
  EXPECT_EQ(gave_way_.size(), 3u);
  EXPECT_EQ(places_.most_silent(), 0u) << "who is served is not among them";
  EXPECT_EQ(places_.taken(), 2);
}

TEST_F(ConnectionPlacesTest, Place_IsFreed_WhenItsConnectionEnds) {
  for (int i = 0; i < 3 * kMost; ++i) EXPECT_NE(Take("192.0.2.1"), nullptr);
  EXPECT_EQ(places_.taken(), 0);
}

TEST_F(ConnectionPlacesTest, Take_EvictsTheLongestSilentConnectionOfTheLargestNetwork_WhenAllPlacesAreTaken) {
  Hold("192.0.2.1", 5);
  Hold("192.0.2.2", 7);
  held_[5]->ServeClient();  // this connection was the longest silent one of the larger network; now it is the latest
  held_[5]->AwaitClient();
  const Place first = Take("192.0.2.3"), second = Take("192.0.2.3");
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(gave_way_, (std::vector<std::string>{"192.0.2.2/1", "192.0.2.2/2"}));
  EXPECT_EQ(places_.taken(), kMost);
  held_[6].reset();  // a connection that has already ended is not counted twice
  EXPECT_EQ(places_.taken(), kMost);
}

TEST_F(ConnectionPlacesTest, Take_NeverEvictsConnectionsThatAreServed) {
  Hold("192.0.2.1", 7);
  Hold("192.0.2.2", 5);
  for (const Place& place : held_) place->ServeClient();
  EXPECT_EQ(Take("192.0.2.3"), nullptr);
  EXPECT_TRUE(gave_way_.empty());
}

TEST_F(ConnectionPlacesTest, Take_EvictsNothing_WhenNetworksHoldEqualNumbersOfPlaces) {
  Hold("192.0.2.1", 6);
  Hold("192.0.2.2", 5);
  const Place served = Take("192.0.2.3");
  served->ServeClient();
  std::vector<Place> newcomers;
  for (int i = 0; i < kMost; ++i) newcomers.push_back(Take("192.0.2.3"));
  EXPECT_EQ(gave_way_.size(), 3u) << "then they have 4, 4 and 4, the served one included";
  EXPECT_NE(newcomers[2], nullptr);
  EXPECT_EQ(newcomers[3], nullptr);
}

TEST_F(ConnectionPlacesTest, Take_EvictsFromAnIpv6Customer_AsIfItsNetworksWereOne) {
  for (const char* part : {"0", "1", "2"}) Hold(std::string("2001:db8:0:") + part + "::1", 3);
  Hold("192.0.2.1", 3);
  EXPECT_EQ(Take("2001:db8:0:7::1"), nullptr);
  const Place newcomer = Take("192.0.2.2");
  ASSERT_NE(newcomer, nullptr);
  EXPECT_EQ(gave_way_, (std::vector<std::string>{"2001:db8:0:0::1/0"}));
}

}  // namespace
}  // namespace quire
