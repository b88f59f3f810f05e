#include "coordinator/api/access/pending_places.h"

#include <gtest/gtest.h>

#include <deque>

namespace quire {
namespace {

using Taken = PendingPlaces::Taken;

TEST(PendingPlacesTest, SingleClient_MayTakeAllPlaces) {
  PendingPlaces places(12);
  Taken taken(places, "alice");
  EXPECT_EQ(places.RoomFor("alice"), 12);
  taken.Resize(12);
  EXPECT_EQ(places.RoomFor("alice"), 0);
  taken.Resize(14);
  EXPECT_EQ(places.RoomFor("alice"), -2);
  taken.Resize(5);
  EXPECT_EQ(places.RoomFor("alice"), 7);
}

TEST(PendingPlacesTest, Client_MayTakePlaces_UpToItsEvenShare_AlthoughAllPlacesAreTaken) {
  PendingPlaces places(12);
  Taken alice(places, "alice"), bob(places, "bob"), carol(places, "carol");
  alice.Resize(12);
  EXPECT_EQ(places.RoomFor("bob"), 6);
  bob.Resize(2);
  EXPECT_EQ(places.RoomFor("bob"), 4);
  EXPECT_LE(places.RoomFor("alice"), 0);
  bob.Resize(6);
  EXPECT_EQ(places.RoomFor("bob"), 0);
  EXPECT_EQ(places.RoomFor("carol"), 4);
  carol.Resize(4);
  EXPECT_LE(places.RoomFor("bob"), 0);
  EXPECT_EQ(places.taken(), 22);
}

TEST(PendingPlacesTest, Places_AreFreed_WhenClientsLeave) {
  PendingPlaces places(12);
  {
    Taken alice(places, "alice"), bob(places, "bob");
    alice.Resize(12);
    bob.Resize(6);
  }
  EXPECT_EQ(places.taken(), 0);
  EXPECT_EQ(places.RoomFor("carol"), 12);
}

/// The number of places that all clients together hold for choices may grow only with the logarithm of the number of
/// clients.
TEST(PendingPlacesTest, TakenPlaces_AreBounded_WhenManyClientsArrive) {
  PendingPlaces places(1000);
  std::deque<Taken> all;
  for (int i = 0; i < 5000; ++i) {
    Taken& taken = all.emplace_back(places, std::to_string(i));
    taken.Resize(std::max(0, places.RoomFor(std::to_string(i))));
  }
  EXPECT_GT(places.taken(), 1000);
  EXPECT_LT(places.taken(), 7500);
}

}  // namespace
}  // namespace quire
