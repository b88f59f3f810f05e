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

/// Wishes for the model, expects the order to load it alone, and reports it as loaded.
void LoadNow(ModelLives& lives, size_t model, double now) {
  lives.Wish(model, now);
  ASSERT_THAT(lives.Decide(now).load, ElementsAre(model));
  lives.OnLoaded(model, now);
  lives.NoWish(model);
}

TEST(ModelLivesTest, Wish_LoadsAModel_WhenThereIsRoom) {
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

TEST(ModelLivesTest, Models_AreNotUnloaded_WhenTheFreedRoomWouldNotSuffice) {
  ModelLives lives(100);
  lives.Add("idle", 30, -1, true, 0);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 90, -1, false, 0);
  lives.BeginUse(1);
  lives.Wish(2, 0);
  EXPECT_THAT(lives.Decide(1).unload, IsEmpty());
}

TEST(ModelLivesTest, BusyModel_ClosesToNewRequestsForATurn_AfterAnotherModelWaitedForThePatience) {
  ModelLives lives(100);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0);
  lives.Wish(1, 5);
  (void)lives.Decide(5);
  EXPECT_TRUE(lives.IsOpen(0, 5));
  const double closed = 5 + ModelLives::kPatience;
  EXPECT_LE(lives.NextTime(5), closed);
  (void)lives.Decide(closed);
  EXPECT_FALSE(lives.IsOpen(0, closed));
  // The request of the model that gives way runs for longer than a turn. Then the model serves again, for at least a
  // turn.
  const double open = closed + ModelLives::kTurn;
  EXPECT_TRUE(lives.IsOpen(0, open));
  for (double now = open; now < open + ModelLives::kTurn; now += 0.5) {
    (void)lives.Decide(now);
    EXPECT_TRUE(lives.IsOpen(0, now)) << now;
  }
  const double again = open + ModelLives::kTurn;
  (void)lives.Decide(again);
  EXPECT_FALSE(lives.IsOpen(0, again));
  lives.EndUse(0, again);
  lives.Wish(0, again);  // a new request waits, and the model is unloaded nevertheless
  EXPECT_THAT(lives.Decide(again).unload, ElementsAre(0));
  lives.OnUnloaded(0);
  EXPECT_THAT(lives.Decide(again).load, ElementsAre(1));
}

TEST(ModelLivesTest, ModelThatGaveWay_OpensAgain_WhenNoRequestWaitsForAnotherModel) {
  ModelLives lives(100);
  lives.Add("busy", 60, -1, true, 0);
  lives.Add("wished", 60, -1, false, 0);
  lives.BeginUse(0);
  lives.Wish(1, 0);
  (void)lives.Decide(5);
  EXPECT_FALSE(lives.IsOpen(0, 5));
  lives.NoWish(1);
  (void)lives.Decide(5.5);
  EXPECT_TRUE(lives.IsOpen(0, 5.5));
}

TEST(ModelLivesTest, IdleModel_IsUnloaded_WhenItsTimeIsOver) {
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

TEST(ModelLivesTest, TwoWishesAtOnce_HaveTheirVictimsUnloadedAtOnce) {
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

/// Puts a loaded model to sleep, at once.
void SleepNow(ModelLives& lives, size_t model, int64_t bytes, double now) {
  lives.Sleep(model);
  ASSERT_THAT(lives.Decide(now).sleep, ElementsAre(model));
  lives.OnAsleep(model, bytes);
}

TEST(ModelLivesTest, SleepingModel_TakesLess_AndAWishWakesIt) {
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

TEST(ModelLivesTest, OrderToSleep_EndsWithTheWorkers) {
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

TEST(ModelLivesTest, Model_FallsAsleepAfterItsRequests_AndNewcomersWakeIt) {
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

TEST(ModelLivesTest, SleepingModel_IsWoken_OnceThereIsRoomForItsCache) {
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

TEST(ModelLivesTest, SleepingModel_IsUnloaded_WhereItsBytesAreNeeded) {
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

TEST(ModelLivesTest, SleepingModel_IsUnloaded_WhenItsTimeIsOverOrItIsToLeave) {
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

TEST(ModelLivesTest, ModelThatLeaves_DoesNotFallAsleep_AndTheReverseIsUnloadedAfterwards) {
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
  const std::pair<const char*, double> good[] = {
      {"5m", 300},      {"300", 300},   {"0", 0},      {"-1", -1},     {"-1m", -1},       {"1h30m", 5400},
      {"24h", 86400},   {"1.5s", 1.5},  {"500ms", 0.5}, {"0s", 0},      {"1000000h", -1}};
  for (const auto& [text, value] : good) EXPECT_EQ(ParseKeepAlive(text), value) << text;
  for (const char* bad : {"", "-", "m", "5 m", "5x", "5m3", "five", "1e3", "--5", "5m-1s", ".", "+5", "nan", "inf"})
    EXPECT_EQ(ParseKeepAlive(bad), std::nullopt) << bad;
}

/// Random requests for three models that do not fit together, which are put to sleep at random, too. The room holds at
/// every moment, no model with requests loses its workers, and every request is served in the end.
TEST(ModelLivesTest, RandomRequests_AreAllServed_WithinTheRoom) {
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
    std::vector<Event> changes;  // starts, ends and sleeps of workers that are on their way
    std::vector<std::pair<double, size_t>> running;
    std::vector<size_t> waiting;
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
        waiting.push_back(static_cast<size_t>(upto(kModels - 1)));
        lives.Wish(waiting.back(), now);
      }
      std::erase_if(running, [&](const auto& one) {
        if (one.first > now) return false;
        lives.EndUse(one.second, now);
        ++served;
        return true;
      });
      std::erase_if(waiting, [&](size_t model) {
        if (!lives.IsOpen(model, now)) return false;
        lives.BeginUse(model);
        lives.NoWish(model);
        running.emplace_back(now + 0.1 * upto(40), model);
        return true;
      });
      if (seed % 2 == 1 && upto(20) == 0) lives.Sleep(static_cast<size_t>(upto(kModels - 1)));
      const ModelLives::Orders orders = lives.Decide(now);
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
