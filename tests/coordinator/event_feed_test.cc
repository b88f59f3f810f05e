#include "coordinator/cluster/group/event_feed.h"

#include <gmock/gmock.h>

#include <thread>

namespace quire {
namespace {

using testing::ElementsAre;

ServerEvent Named(const std::string& name) { return {.name = name, .text = "it is " + name}; }

void PublishMany(EventFeed& feed, size_t count) {
  for (size_t i = 0; i < count; ++i) feed.Publish(EventKind::kEpoch, [&] { return Named(std::to_string(i)); });
}

std::vector<uint64_t> Numbers(const std::vector<ServerEvent>& events) {
  std::vector<uint64_t> numbers;
  for (const ServerEvent& event : events) numbers.push_back(event.number);
  return numbers;
}

TEST(EventFeedTest, After_ContinuesWhereTheReaderStopped) {
  EventFeed feed;
  EXPECT_TRUE(feed.After(0, 10).events.empty());
  PublishMany(feed, 5);
  EXPECT_THAT(Numbers(feed.After(0, 2).events), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(feed.After(2, 10).events), ElementsAre(3, 4, 5));
  EXPECT_TRUE(feed.After(5, 10).events.empty());
  EXPECT_TRUE(feed.After(500, 10).events.empty());
  EXPECT_EQ(feed.After(0, 10).lost, 0u);
  EXPECT_EQ(feed.newest(), 5u);
}

TEST(EventFeedTest, After_ReportsTheNumberOfEventsThatASlowReaderLost) {
  EventFeed feed;
  PublishMany(feed, EventFeed::kKept + 10);
  const EventFeed::Batch batch = feed.After(3, 2);
  EXPECT_EQ(batch.lost, 7u);
  EXPECT_THAT(Numbers(batch.events), ElementsAre(11, 12));
  EXPECT_EQ(feed.After(10, 1).lost, 0u);
}

TEST(EventFeedTest, Publish_LimitsTheRateOfEventsOfRequests) {
  EventFeed feed;
  int made = 0;
  for (int i = 0; i < 1000; ++i) {
    feed.Publish(EventKind::kRequestQueued, [&] {
      ++made;
      return Named("queued");
    });
  }
  const auto left_out = feed.After(0, 1).left_out;
  EXPECT_EQ(feed.newest() + left_out, 1000u);
  EXPECT_EQ(made, static_cast<int>(feed.newest()));
  EXPECT_GE(feed.newest(), static_cast<uint64_t>(EventFeed::kBurst));
  EXPECT_GT(left_out, 0u);
  // Each kind has its own rate limit, and events of lost workers have none.
  feed.Publish(EventKind::kPreempted, [] { return Named("preempted"); });
  feed.Publish(EventKind::kWorkersLost, [] { return Named("lost"); });
  EXPECT_EQ(feed.OfRequest("preempted").size(), 1u);
  EXPECT_EQ(feed.OfRequest("lost").size(), 1u);
}

TEST(EventFeedTest, Publish_NumbersEventsWithoutGaps_FromManyThreads) {
  EventFeed feed;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { PublishMany(feed, 400); });
  for (std::thread& thread : threads) thread.join();
  const auto numbers = Numbers(feed.After(0, 5000).events);
  ASSERT_EQ(numbers.size(), 1600u);
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i + 1);
}

TEST(EngineWatcherTest, BrokenPins_AreReportedAsTheirOwnKindOfEvent) {
  EngineOptions options;
  options.blocks.num_blocks = 10;
  const Engine engine(options);
  EventFeed feed;
  EngineWatcher watcher(feed, engine, 0);
  watcher.OnDecision({DecisionKind::kPinsBroken, 7});
  watcher.OnDecision({DecisionKind::kHeldForBlocks, 8});
  const auto events = feed.After(0, 10).events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(EventName(events[0].kind), "pins_broken");
  EXPECT_STREQ(EventName(events[1].kind), "request_held");
}

TEST(EngineWatcherTest, RequestThatLetsOthersGoFirst_IsReportedAsHeld) {
  EngineOptions options;
  options.blocks.num_blocks = 10;
  const Engine engine(options);
  EventFeed feed;
  EngineWatcher(feed, engine, 0).OnDecision({DecisionKind::kStoodBack, 7, 0, 6, 4});
  const auto events = feed.After(0, 10).events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_STREQ(EventName(events[0].kind), "request_held");
}

TEST(EngineWatcherTest, TotalsOfGuessedTokens_CauseNoEvents) {
  EngineOptions options;
  options.blocks.num_blocks = 10;
  const Engine engine(options);
  EventFeed feed;
  EngineWatcher watcher(feed, engine, 0);
  for (const DecisionKind kind :
       {DecisionKind::kDraftedByPrediction, DecisionKind::kDraftedFromText, DecisionKind::kDraftedFromAnswers,
        DecisionKind::kDraftedByModel, DecisionKind::kDraftedByLayer})
    watcher.OnDecision({kind, 7, 0, 3, 5});
  EXPECT_EQ(feed.newest(), 0u);
}

TEST(EventFeedTest, EveryKindOfEvent_HasItsOwnName) {
  std::vector<std::string> names;
  for (size_t kind = 0; kind < kNumEventKinds; ++kind) names.emplace_back(EventName(static_cast<EventKind>(kind)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace quire
