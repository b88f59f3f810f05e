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

TEST(KeepAliveTest, Times_AreSpelledAsOllamaDoes) {
  const std::pair<const char*, double> good[] = {
      {"5m", 300},      {"300", 300},   {"0", 0},      {"-1", -1},     {"-1m", -1},       {"1h30m", 5400},
      {"24h", 86400},   {"1.5s", 1.5},  {"500ms", 0.5}, {"0s", 0},      {"1000000h", -1}};
  for (const auto& [text, value] : good) EXPECT_EQ(ParseKeepAlive(text), value) << text;
  for (const char* bad : {"", "-", "m", "5 m", "5x", "5m3", "five", "1e3", "--5", "5m-1s", ".", "+5", "nan", "inf"})
    EXPECT_EQ(ParseKeepAlive(bad), std::nullopt) << bad;
}

/// Makes random requests for three models that do not fit together. At every moment the loaded models must fit into the
/// room, no model with requests may lose its workers, and every request must be served in the end.
TEST(ModelLivesTest, RandomRequests_AreAllServed_WithinTheRoom) {
  constexpr int kModels = 3, kRequests = 400;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
    ModelLives lives(100);
    for (int m = 0; m < kModels; ++m) lives.Add(fmt::format("m{}", m), 40 + upto(60), upto(3) - 1, false, 0);
    struct Event {
      double at;
      size_t model;
      bool load;
    };
    std::vector<Event> changes;             // starts and ends of workers that are on their way
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
        if (change->load && upto(9) == 0)
          lives.OnFailed(change->model, now);
        else if (change->load)
          lives.OnLoaded(change->model, now);
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
      const ModelLives::Orders orders = lives.Decide(now);
      for (const size_t model : orders.unload) {
        ASSERT_EQ(lives.users(model), 0) << seed;
        changes.push_back({now + 0.1 * upto(5), model, false});
      }
      for (const size_t model : orders.load) changes.push_back({now + 0.1 * upto(9), model, true});
      ASSERT_LE(lives.taken(), lives.room()) << seed;
      const double latest = now + ModelLives::kTurn;
      ASSERT_TRUE(waiting.empty() || !changes.empty() || lives.NextTime(now) <= latest) << seed;
    }
    ASSERT_EQ(served, kRequests) << seed << " after " << now << " s";
  }
}

}  // namespace
}  // namespace quire
