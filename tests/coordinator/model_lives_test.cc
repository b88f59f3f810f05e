#include "coordinator/api/models/model_lives.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "comm/topology/model_life.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// Requests the model, expects the order to load it alone, and reports it as loaded.
void LoadNow(ModelLives& lives, size_t model, double now) {
  lives.Wish(model, now);
  ASSERT_THAT(lives.Decide(now).load, ElementsAre(model));
  lives.OnLoaded(model, now);
  lives.NoWish(model);
}

TEST(ModelLivesTest, WaitingRequest_HasItsModelLoaded_WhenThereIsMemory) {
  ModelLives lives(100);
  lives.Add("a", 60, -1, false, 0);
  EXPECT_FALSE(lives.IsOpen(0, 0));
  lives.Wish(0, 0);
  EXPECT_THAT(lives.Decide(0).load, ElementsAre(0));
  EXPECT_THAT(lives.Decide(0).load, IsEmpty());
  EXPECT_EQ(lives.taken(), 60);
  lives.OnLoaded(0, 1);
  EXPECT_TRUE(lives.IsOpen(0, 1));
}

TEST(ModelLivesTest, LeastRecentlyUsedModel_IsUnloaded_BeforeAnotherModelIsLoaded) {
  ModelLives lives(100);
  lives.Add("old", 30, -1, true, 0);
  lives.Add("new", 40, -1, true, 0);
  lives.Add("wished", 50, -1, false, 0);
  lives.BeginUse(0), lives.EndUse(0, 5);
  lives.BeginUse(1), lives.EndUse(1, 6);
  lives.Wish(2, 10);
  const ModelLives::Orders orders = lives.Decide(10);
  EXPECT_THAT(orders.unload, ElementsAre(0));
  EXPECT_THAT(orders.load, IsEmpty());
  EXPECT_THAT(lives.Decide(11).load, IsEmpty());  // the old workers still hold their memory
  EXPECT_THAT(lives.Decide(11).unload, IsEmpty());
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(12).load, ElementsAre(2));
  EXPECT_LE(lives.taken(), lives.room());
}

TEST(ModelLivesTest, SmallModel_StaysLoaded_WhenUnloadingALargerModelFreesEnoughMemory) {
  ModelLives lives(100);
  lives.Add("small", 10, -1, true, 0);
  lives.Add("large", 80, -1, true, 1);
  lives.Add("wished", 85, -1, false, 0);
  lives.Wish(2, 10);
  EXPECT_THAT(lives.Decide(10).unload, ElementsAre(1));
}

TEST(ModelLivesTest, ModelWithRequests_IsNeverUnloaded) {
  ModelLives lives(100);
  lives.Add("busy", 60, 0, true, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0);
  lives.Wish(1, 0);
  for (double now = 0; now < 200; now += 0.5) EXPECT_THAT(lives.Decide(now).unload, IsEmpty()) << now;
  EXPECT_THAT(lives.InTheWayOf(1), HasSubstr("busy has 1 request"));
  lives.EndUse(0, 200);
  EXPECT_THAT(lives.Decide(200).unload, ElementsAre(0));
}

TEST(ModelLivesTest, Models_AreNotUnloaded_WhenTheFreedMemoryWouldNotSuffice) {
  ModelLives lives(100);
  lives.Add("idle", 30, -1, true, 0);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 90, -1, false, 0);
  lives.BeginUse(1);
  lives.Wish(2, 0);
  EXPECT_THAT(lives.Decide(1).unload, IsEmpty());
}

TEST(ModelLivesTest, BusyModel_TakesNoRequestsAfterItsTurn_AndIsPausedAfterAnotherTurn) {
  ModelLives lives(100);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0, {"m"});
  lives.Wish(1, 5, {"a"});
  for (double now = 5; now < ModelLives::kTurn; now += 0.5) {
    EXPECT_THAT(lives.Decide(now).pause, IsEmpty());
    EXPECT_TRUE(lives.IsOpen(0, now)) << now;
  }
  const double closed = ModelLives::kTurn, paused = 2 * ModelLives::kTurn;
  for (double now = closed; now < paused; now += 0.5) {
    EXPECT_THAT(lives.Decide(now).pause, IsEmpty()) << now;
    EXPECT_FALSE(lives.IsOpen(0, now)) << now;
    EXPECT_LE(lives.NextTime(now), paused);
  }
  EXPECT_THAT(lives.Decide(paused).pause, ElementsAre(0));
  EXPECT_THAT(lives.Decide(paused + 0.1).pause, ElementsAre(0)) << "until its requests have left";
  EXPECT_LT(lives.NextTime(paused + 0.1), paused + 0.2);
  lives.EndUse(0, paused + 0.2, {"m"});
  lives.Wish(0, paused + 0.2, {"m"});  // the paused request waits, and the model is unloaded nevertheless
  EXPECT_THAT(lives.Decide(paused + 0.2).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(paused + 0.3).load, ElementsAre(1));
}

TEST(ModelLivesTest, ModelWhoseRequestsCannotBePaused_ServesForATurn_BeforeItIsClosedAgain) {
  ModelLives lives(100);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0);
  lives.Wish(1, 5);
  (void)lives.Decide(10);
  EXPECT_FALSE(lives.IsOpen(0, 10));
  const double open = 10 + 2 * ModelLives::kTurn;
  for (double now = open; now < open + ModelLives::kTurn; now += 0.5) {
    EXPECT_THAT(lives.Decide(now).pause, IsEmpty());
    EXPECT_TRUE(lives.IsOpen(0, now)) << now;
  }
  (void)lives.Decide(open + ModelLives::kTurn);
  EXPECT_FALSE(lives.IsOpen(0, open + ModelLives::kTurn));
}

TEST(ModelLivesTest, ClosedModel_TakesRequestsAgain_WhenNoRequestWaitsForAnotherModel) {
  ModelLives lives(100);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0);
  lives.Wish(1, 0);
  (void)lives.Decide(15);
  EXPECT_FALSE(lives.IsOpen(0, 15));
  lives.NoWish(1);
  (void)lives.Decide(15.5);
  EXPECT_TRUE(lives.IsOpen(0, 15.5));
}

TEST(ModelLivesTest, IdleModel_IsUnloaded_WhenItsKeepAliveTimeIsOver) {
  ModelLives lives(100);
  lives.Add("a", 10, 300, true, 0);
  lives.Add("always", 10, -1, true, 0);
  lives.BeginUse(0);
  EXPECT_TRUE(std::isinf(lives.ExpiryOf(0)));
  EXPECT_TRUE(std::isinf(lives.NextTime(0)));
  lives.EndUse(0, 100);
  EXPECT_EQ(lives.NextTime(100), 400);
  EXPECT_THAT(lives.Decide(399.9).unload, IsEmpty());
  EXPECT_THAT(lives.Decide(400).unload, ElementsAre(0));
  EXPECT_THAT(lives.Decide(1e9).unload, IsEmpty());
}

TEST(ModelLivesTest, ZeroKeepAlive_UnloadsAfterTheLastRequest_AndNegativeKeepAliveNever) {
  ModelLives lives(100);
  lives.Add("a", 10, -1, true, 0);
  lives.BeginUse(0), lives.BeginUse(0);
  lives.KeepAlive(0, 0);
  lives.EndUse(0, 1);
  EXPECT_THAT(lives.Decide(1).unload, IsEmpty());
  lives.EndUse(0, 2);
  EXPECT_THAT(lives.Decide(2).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  LoadNow(lives, 0, 3);
  lives.KeepAlive(0, -1);
  EXPECT_THAT(lives.Decide(1e9).unload, IsEmpty());
}

TEST(ModelLivesTest, Client_ShortensTheKeepAliveTimeOfItsOwnRequestsOnly) {
  ModelLives lives(100);
  lives.Add("a", 10, 300, true, 0);
  const auto use = [&](const char* client, double end) { lives.BeginUse(0, {client}), lives.EndUse(0, end, {client}); };
  use("alice", 10);
  lives.KeepAlive(0, 0, "mallory");
  use("mallory", 20);
  EXPECT_EQ(lives.ExpiryOf(0), 310) << "alice said nothing, so the configured time holds for her";
  lives.KeepAlive(0, 500, "bob");
  use("bob", 30);
  EXPECT_EQ(lives.ExpiryOf(0), 530) << "the latest end of what they want";
  lives.KeepAlive(0, 1, "bob");
  EXPECT_EQ(lives.ExpiryOf(0), 310);
  lives.Leave(0);
  EXPECT_THAT(lives.Decide(100).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  LoadNow(lives, 0, 110);
  use("mallory", 111);
  EXPECT_THAT(lives.Decide(111).unload, ElementsAre(0)) << "nobody else used it since its start";
}

TEST(ModelLivesTest, KeepAliveTimesOfManyClients_AreRemembered_ByTheLatestEnd) {
  ModelClients clients(100);
  clients.Used({"first"}, 50);
  for (int i = 0; i < 2000; ++i) {
    clients.Keep(std::to_string(i), 0);
    clients.Used({std::to_string(i)}, 60);
  }
  EXPECT_EQ(clients.End(0), 150);
}

TEST(ModelLivesTest, IdleModel_ServesATurn_BeforeItIsUnloadedForAnotherClient) {
  ModelLives lives(100);
  lives.Add("a", 60, -1, true, 0);
  lives.Add("b", 60, -1, false, 0);
  lives.BeginUse(0, {"alice"}), lives.EndUse(0, 1, {"alice"});
  lives.Wish(1, 1, {"mallory"});
  EXPECT_THAT(lives.Decide(1).unload, IsEmpty());
  EXPECT_THAT(lives.Decide(9.9).unload, IsEmpty());
  EXPECT_TRUE(lives.IsOpen(0, 9.9));
  lives.Wish(1, 9.9, {"alice"});
  EXPECT_THAT(lives.Decide(9.9).unload, ElementsAre(0)) << "she wants b, too, and nobody else used a";
}

TEST(ModelLivesTest, IdleModel_IsUnloaded_WhenItsTurnIsOver) {
  ModelLives lives(100);
  lives.Add("a", 60, -1, true, 0);
  lives.Add("b", 60, -1, false, 0);
  lives.BeginUse(0, {"alice"}), lives.EndUse(0, 9, {"alice"});
  lives.Wish(1, 9, {"mallory"});
  EXPECT_THAT(lives.Decide(ModelLives::kTurn).unload, ElementsAre(0));
}

TEST(ModelLivesTest, Turns_RotateAmongClients_HoweverManyModelsOneClientRequests) {
  ModelLives lives(100);
  for (const char* name : {"b", "c", "d", "a"}) lives.Add(name, 60, -1, false, 0);
  for (size_t i = 0; i < 3; ++i) lives.Wish(i, 0, {"mallory"});
  lives.Wish(3, 1, {"alice"});
  ASSERT_THAT(lives.Decide(1).load, ElementsAre(0));
  lives.OnLoaded(0, 2);
  lives.NoWish(0, {"mallory"});
  ASSERT_THAT(lives.Decide(12).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(12).load, ElementsAre(3)) << "the wishes of mallory are older, but she had her turn";
}

TEST(ModelLivesTest, RequestsOfBatches_GiveWayImmediately_AndWaitBehindOtherRequests) {
  ModelLives lives(100);
  lives.Add("b", 60, -1, true, 0);
  lives.Add("a", 60, -1, false, 0);
  const ModelClient batch{"mallory", true}, alice{"alice"};
  lives.BeginUse(0, batch);
  lives.Wish(1, 1, alice);
  EXPECT_FALSE(lives.IsOpen(0, 1, true)) << "no further line enters";
  EXPECT_TRUE(lives.IsOpen(0, 1));
  EXPECT_THAT(lives.Decide(1).pause, ElementsAre(0)) << "without patience and turn";
  lives.EndUse(0, 1.1, batch);
  lives.Wish(0, 1.1, batch);
  EXPECT_THAT(lives.Decide(1.1).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(1.2).load, ElementsAre(1)) << "the line came back later than alice, and is a line";
  lives.OnLoaded(1, 2);
  lives.NoWish(1, alice);
  lives.BeginUse(1, alice), lives.EndUse(1, 3, alice);
  const double rest = 3 + ModelLives::kBatchRest;
  for (double now = 3; now < rest; now += 1) EXPECT_THAT(lives.Decide(now).unload, IsEmpty()) << now;
  EXPECT_THAT(lives.Decide(rest).unload, ElementsAre(1)) << "alice has left it";
}

TEST(ModelLivesTest, RequestsOfBatches_TakeNoMemory_ThatAnotherRequestWaitsFor) {
  ModelLives lives(100);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("small", 40, -1, false, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0, {"bob"});
  lives.Wish(1, 0, {"mallory", true});
  lives.Wish(2, 1, {"alice"});
  EXPECT_THAT(lives.Decide(1).load, IsEmpty());
  lives.NoWish(2, {"alice"});
  EXPECT_THAT(lives.Decide(2).load, ElementsAre(1));
}

TEST(ModelLivesTest, FailedStart_IsTriedAgain_AfterALongerPauseEachTime) {
  ModelLives lives(100);
  lives.Add("a", 10, -1, false, 0);
  double now = 0, pause = ModelLives::kFirstPause;
  for (int i = 0; i < 12; ++i, pause = std::min(2 * pause, ModelLives::kLongestPause)) {
    lives.Wish(0, now);
    EXPECT_THAT(lives.Decide(now).load, ElementsAre(0)) << i;
    lives.OnFailed(0, now);
    EXPECT_EQ(lives.taken(), 0);
    EXPECT_DOUBLE_EQ(lives.PauseOf(0, now), pause);
    EXPECT_THAT(lives.Decide(now + pause - 0.01).load, IsEmpty());
    now += pause;
    EXPECT_EQ(lives.PauseOf(0, now), 0);
    lives.NoWish(0);
  }
  LoadNow(lives, 0, now);
  EXPECT_EQ(lives.PauseOf(0, now), 0);
}

TEST(ModelLivesTest, LostModel_IsUnloadedAndPauses_WhileOtherModelsStayOpen) {
  ModelLives lives(100);
  lives.Add("lost", 10, 300, true, 0);
  lives.Add("other", 10, 300, true, 0);
  lives.OnLost(0, 5);
  EXPECT_FALSE(lives.IsOpen(0, 5));
  EXPECT_TRUE(lives.IsOpen(1, 5));
  EXPECT_THAT(lives.Decide(5).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  lives.Wish(0, 5.1);
  EXPECT_THAT(lives.Decide(5.1).load, IsEmpty());
  EXPECT_THAT(lives.Decide(6).load, ElementsAre(0));
}

TEST(ModelLivesTest, LeavingModel_TakesNoNewRequests_AndIsUnloadedAfterItsLastRequest) {
  ModelLives lives(100);
  lives.Add("a", 10, -1, true, 0);
  lives.BeginUse(0);
  lives.Leave(0);
  EXPECT_FALSE(lives.IsOpen(0, 1));
  EXPECT_THAT(lives.Decide(1).unload, IsEmpty());
  lives.EndUse(0, 2);
  EXPECT_THAT(lives.Decide(2).unload, ElementsAre(0));
}

TEST(ModelLivesTest, Models_AreUnloadedForBothRequests_WhenTwoRequestsWaitForModels) {
  ModelLives lives(100);
  for (const char* name : {"a", "b"}) lives.Add(name, 50, -1, true, 0);
  for (const char* name : {"c", "d"}) lives.Add(name, 50, -1, false, 0);
  lives.Wish(2, 1);
  lives.Wish(3, 1);
  EXPECT_THAT(lives.Decide(1).unload, ElementsAre(0, 1)) << "the room that a leaves is promised to c";
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(2).load, ElementsAre(2));
  lives.OnUnloaded(1);
  EXPECT_THAT(lives.Decide(3).load, ElementsAre(3));
}

/// Puts a loaded model to sleep and reports immediately that the model sleeps.
void SleepNow(ModelLives& lives, size_t model, int64_t bytes, double now) {
  lives.Sleep(model);
  ASSERT_THAT(lives.Decide(now).sleep, ElementsAre(model));
  lives.OnAsleep(model, bytes);
}

TEST(ModelLivesTest, SleepingModel_TakesLessMemory_AndIsWokenByARequest) {
  ModelLives lives(100);
  lives.Add("a", 60, -1, true, 0);
  SleepNow(lives, 0, 20, 1);
  EXPECT_EQ(lives.taken(), 20);
  EXPECT_EQ(lives.phase(0), LifePhase::kAsleep);
  EXPECT_FALSE(lives.IsOpen(0, 1));
  EXPECT_THAT(lives.Decide(2).wake, IsEmpty());
  lives.Wish(0, 3);
  const ModelLives::Orders orders = lives.Decide(3);
  EXPECT_THAT(orders.wake, ElementsAre(0));
  EXPECT_THAT(orders.load, IsEmpty());
  EXPECT_EQ(lives.taken(), 60);
  lives.OnLoaded(0, 3);
  EXPECT_TRUE(lives.IsOpen(0, 3));
  lives.NoWish(0);
  EXPECT_THAT(lives.Decide(4).sleep, IsEmpty());
}

TEST(ModelLivesTest, OrderToSleep_IsForgotten_WhenTheModelsWorkersEnd) {
  ModelLives lives(100);
  lives.Add("a", 60, -1, true, 0);
  lives.Sleep(0);
  lives.Leave(0);
  EXPECT_THAT(lives.Decide(1).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  LoadNow(lives, 0, 2);
  EXPECT_TRUE(lives.IsOpen(0, 2));
  EXPECT_THAT(lives.Decide(3).sleep, IsEmpty());
}

TEST(ModelLivesTest, Model_FallsAsleepAfterItsRequests_AndNewRequestsWakeIt) {
  ModelLives lives(100);
  lives.Add("a", 60, -1, true, 0);
  lives.BeginUse(0);
  lives.Sleep(0);
  EXPECT_FALSE(lives.IsOpen(0, 1));
  EXPECT_THAT(lives.Decide(1).sleep, IsEmpty());
  lives.EndUse(0, 2);
  lives.Wish(0, 2);
  EXPECT_THAT(lives.Decide(2).sleep, ElementsAre(0));
  EXPECT_THAT(lives.Decide(3).wake, IsEmpty()) << "it is falling asleep";
  EXPECT_EQ(lives.taken(), 60);
  lives.OnAsleep(0, 10);
  EXPECT_THAT(lives.Decide(4).wake, ElementsAre(0));
}

TEST(ModelLivesTest, SleepingModel_IsWoken_OnceItsCacheFitsIntoMemory) {
  ModelLives lives(100);
  lives.Add("sleeper", 60, -1, true, 0);
  lives.Add("other", 70, -1, false, 0);
  SleepNow(lives, 0, 30, 1);
  LoadNow(lives, 1, 2);
  EXPECT_EQ(lives.taken(), 100);
  lives.Wish(0, 3);
  ModelLives::Orders orders = lives.Decide(3);
  EXPECT_THAT(orders.unload, ElementsAre(1));
  EXPECT_THAT(orders.wake, IsEmpty());
  lives.OnUnloaded(1);
  EXPECT_THAT(lives.Decide(4).wake, ElementsAre(0));
}

TEST(ModelLivesTest, SleepingModel_IsUnloaded_WhenItsMemoryIsNeeded) {
  ModelLives lives(100);
  lives.Add("sleeper", 60, -1, true, 0);
  lives.Add("loaded", 40, -1, true, 5);
  lives.Add("wished", 50, -1, false, 0);
  SleepNow(lives, 0, 30, 6);
  lives.Wish(2, 7);
  EXPECT_THAT(lives.Decide(7).unload, ElementsAre(0)) << "it was used longest ago, and 20 bytes are missing";
  EXPECT_EQ(lives.taken(), 70);
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(8).load, ElementsAre(2));
}

TEST(ModelLivesTest, SleepingModel_IsUnloaded_WhenItsKeepAliveTimeIsOverOrUnloadingIsOrdered) {
  ModelLives lives(100);
  lives.Add("a", 10, 300, true, 0);
  lives.Add("b", 10, -1, true, 0);
  SleepNow(lives, 0, 5, 1);
  SleepNow(lives, 1, 5, 1);
  EXPECT_EQ(lives.NextTime(1), 300);
  EXPECT_THAT(lives.Decide(300).unload, ElementsAre(0));
  lives.Leave(1);
  lives.Wish(1, 301);
  const ModelLives::Orders orders = lives.Decide(301);
  EXPECT_THAT(orders.unload, ElementsAre(1));
  EXPECT_THAT(orders.wake, IsEmpty());
  lives.OnUnloaded(1);
  EXPECT_THAT(lives.Decide(302).load, ElementsAre(1));
}

TEST(ModelLivesTest, ModelToUnload_IsNotPutToSleep_AndAModelFallingAsleepIsUnloadedAfterwards) {
  ModelLives lives(100);
  lives.Add("a", 10, -1, true, 0);
  lives.Leave(0);
  lives.Sleep(0);
  ModelLives::Orders orders = lives.Decide(1);
  EXPECT_THAT(orders.unload, ElementsAre(0));
  EXPECT_THAT(orders.sleep, IsEmpty());
  lives.OnUnloaded(0);
  LoadNow(lives, 0, 2);
  lives.Sleep(0);
  EXPECT_THAT(lives.Decide(3).sleep, ElementsAre(0));
  lives.Leave(0);
  EXPECT_THAT(lives.Decide(3).unload, IsEmpty()) << "it is falling asleep";
  lives.OnAsleep(0, 5);
  EXPECT_THAT(lives.Decide(4).unload, ElementsAre(0));
}

TEST(KeepAliveTest, Times_AreSpelledAsOllamaDoes) {
  const std::pair<const char*, double> good[] = {{"5m", 300},    {"300", 300},    {"0", 0},        {"-1", -1},
                                                 {"-1m", -1},    {"1h30m", 5400}, {"24h", 86400},  {"1.5s", 1.5},
                                                 {"500ms", 0.5}, {"0s", 0},       {"1000000h", -1}};
  for (const auto& [text, value] : good) EXPECT_EQ(ParseKeepAlive(text), value) << text;
  for (const char* bad : {"", "-", "m", "5 m", "5x", "5m3", "five", "1e3", "--5", "5m-1s", ".", "+5", "nan", "inf"})
    EXPECT_EQ(ParseKeepAlive(bad), std::nullopt) << bad;
}

/// Makes random requests of several clients and of a batch for three models that do not fit together, and puts models
/// to sleep at random. At every moment the loaded models must fit into the memory, no model with requests may lose its
/// workers, and every request must be served at last. Half of the requests can be paused.
TEST(ModelLivesTest, RandomRequests_AreAllServed_WithinTheMemory) {
  constexpr int kModels = 3, kRequests = 400;
  int slept = 0, woken = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
    ModelLives lives(100);
    for (int m = 0; m < kModels; ++m) lives.Add(fmt::format("m{}", m), 40 + upto(60), upto(3) - 1, false, 0);
    enum Change { kLoads, kUnloads, kSleeps };
    struct Event {
      double at;
      size_t model;
      Change change;
    };
    std::vector<Event> changes;  // starts, ends and sleeps of workers that are not complete yet
    struct Asked {
      size_t model = 0;
      ModelClient client;
      bool pauses = false;
      double seconds = 0, ends = 0;
    };
    std::vector<Asked> running, waiting;
    int arrived = 0, served = 0;
    double now = 0;
    for (; served < kRequests && now < 4000; now += 0.1) {
      for (auto change = changes.begin(); change != changes.end();) {
        if (change->at > now) {
          ++change;
          continue;
        }
        if (change->change == kLoads && upto(9) == 0)
          lives.OnFailed(change->model, now);
        else if (change->change == kLoads)
          lives.OnLoaded(change->model, now);
        else if (change->change == kSleeps)
          lives.OnAsleep(change->model, upto(40));
        else
          lives.OnUnloaded(change->model);
        change = changes.erase(change);
      }
      for (int i = upto(2); i > 1 && arrived < kRequests; --i, ++arrived) {
        const int client = upto(3);
        const auto model = static_cast<size_t>(upto(kModels - 1));
        const double seconds = 0.1 * upto(upto(9) == 0 ? 400 : 40);
        waiting.push_back({model, {fmt::format("c{}", client), client == 0}, upto(1) > 0, seconds});
        lives.Wish(waiting.back().model, now, waiting.back().client);
      }
      std::erase_if(running, [&](const auto& one) {
        if (one.ends > now) return false;
        lives.EndUse(one.model, now, one.client);
        ++served;
        return true;
      });
      std::erase_if(waiting, [&](Asked& one) {
        if (!lives.IsOpen(one.model, now, one.client.background)) return false;
        lives.BeginUse(one.model, one.client);
        lives.NoWish(one.model, one.client);
        one.ends = now + one.seconds;
        running.push_back(one);
        return true;
      });
      if (seed % 2 == 1 && upto(20) == 0) lives.Sleep(static_cast<size_t>(upto(kModels - 1)));
      const ModelLives::Orders orders = lives.Decide(now);
      std::erase_if(running, [&](Asked& one) {
        if (!one.pauses || std::ranges::count(orders.pause, one.model) == 0) return false;
        lives.EndUse(one.model, now, one.client);
        lives.Wish(one.model, now, one.client);
        one.seconds = one.ends - now;
        waiting.push_back(one);
        return true;
      });
      for (const size_t model : orders.unload) {
        ASSERT_EQ(lives.users(model), 0) << seed;
        changes.push_back({now + 0.1 * upto(5), model, kUnloads});
      }
      for (const size_t model : orders.sleep) {
        ASSERT_EQ(lives.users(model), 0) << seed;
        changes.push_back({now + 0.1 * upto(5), model, kSleeps});
        ++slept;
      }
      for (const size_t model : orders.load) changes.push_back({now + 0.1 * upto(9), model, kLoads});
      for (const size_t model : orders.wake) lives.OnLoaded(model, now), ++woken;
      ASSERT_LE(lives.taken(), lives.room()) << seed;
      const double latest = now + ModelLives::kTurn;
      const bool changed = !changes.empty() || !orders.wake.empty();
      ASSERT_TRUE(waiting.empty() || changed || lives.NextTime(now) <= latest) << seed;
    }
    ASSERT_EQ(served, kRequests) << seed << " after " << now << " s";
  }
  EXPECT_GT(slept, 200);
  EXPECT_GT(woken, 100);
}

}  // namespace
}  // namespace quire
