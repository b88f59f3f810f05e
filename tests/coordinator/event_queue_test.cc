// Tests of EventQueue and Handoff, which pass events of a generation and single values from other threads to the I/O
// thread. The thread sanitizer runs these tests, too (CONTRIBUTING.md).
#include "coordinator/api/openai/event_queue.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "coordinator/http/handoff.h"

namespace quire {
namespace {

namespace asio = boost::asio;

CallEvent EventOf(int choice, const std::string& text) {
  CallEvent event;
  event.choice = choice;
  event.text = text;
  return event;
}

/// Takes `count` events and appends each text to its choice's text in `texts`.
asio::awaitable<void> Take(std::shared_ptr<EventQueue> queue, int count, std::vector<std::string>& texts) {
  while (count > 0) {
    std::optional<CallEvent> event = co_await queue->Next(std::chrono::milliseconds(10));
    if (!event) continue;
    texts[static_cast<size_t>(event->choice)] += event->text;
    --count;
  }
}

TEST(EventQueueTest, EventsOfManyThreads_ArriveCompleteAndInOrder) {
  constexpr int kThreads = 4, kEvents = 2000;
  asio::io_context io(1);
  const auto queue = std::make_shared<EventQueue>(io.get_executor());
  std::vector<std::string> texts(kThreads);
  asio::co_spawn(io, Take(queue, kThreads * kEvents, texts), asio::detached);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&queue, t] {
      for (int i = 0; i < kEvents; ++i) queue->Push(EventOf(t, std::to_string(i % 10)));
    });
  }
  io.run();
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int i = 0; i < kEvents; ++i) expected += std::to_string(i % 10);
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

TEST(EventQueueTest, Queue_EndsWithAnError_WhenAStalledClientLetsItOverflow) {
  asio::io_context io(1);
  const auto queue = std::make_shared<EventQueue>(io.get_executor());
  bool stalled = false;
  int overflows = 0;
  queue->is_stalled = [&] { return stalled; };
  queue->on_overflow = [&] { ++overflows; };
  const std::string text(10'000, 'x');
  for (int i = 0; i < 40; ++i) queue->Push(EventOf(0, text));
  io.run();
  EXPECT_EQ(overflows, 0) << "the client takes what comes; it is only much at once";
  stalled = true;
  for (int i = 0; i < 40; ++i) queue->Push(EventOf(0, text));
  io.restart();
  io.run();
  EXPECT_EQ(overflows, 1);
  const auto last = queue->TryNext();
  ASSERT_TRUE(last);
  EXPECT_NE(last->error, "");
  EXPECT_FALSE(queue->TryNext()) << "nothing is kept beside the error";
}

TEST(EventQueueTest, EventsOfPrompts_DoNotOverflowTheQueue_WhenTheClientStalls) {
  asio::io_context io(1);
  const auto queue = std::make_shared<EventQueue>(io.get_executor());
  queue->is_stalled = [] { return true; };
  for (int i = 0; i < 100; ++i) {
    CallEvent event = EventOf(0, std::string(10'000, 'x'));
    event.of_prompt = true;
    queue->Push(std::move(event));
  }
  io.run();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue->TryNext()->error, "") << i;
}

TEST(EventQueueTest, Queue_HoldsEventsOfAStalledClient_OnlyWhileMayHoldReturnsTrue) {
  asio::io_context io(1);
  const auto queue = std::make_shared<EventQueue>(io.get_executor());
  size_t asked = 0;
  queue->is_stalled = [] { return true; };
  queue->may_hold = [&](size_t bytes) {
    asked = bytes;
    return bytes < 100'000;
  };
  const std::string text(10'000, 'x');
  queue->Push(EventOf(0, text));
  io.run();
  EXPECT_EQ(asked, 0u) << "a little is every stream's own";
  for (int i = 0; i < 8; ++i) queue->Push(EventOf(0, text));
  io.restart();
  io.run();
  EXPECT_GE(asked, 90'000u);
  EXPECT_EQ(queue->TryNext()->error, "");
  for (int i = 0; i < 2; ++i) queue->Push(EventOf(0, text));
  io.restart();
  io.run();
  EXPECT_NE(queue->TryNext()->error, "");
}

TEST(HandoffTest, Handoff_DeliversAValue_FromAnotherThread) {
  asio::io_context io(1);
  int sum = 0;
  std::vector<std::thread> threads;
  const auto take = [&sum](std::shared_ptr<Handoff<std::unique_ptr<int>>> handoff) -> asio::awaitable<void> {
    const std::unique_ptr<int> value = co_await handoff->Take();
    sum += *value;
  };
  for (int i = 1; i <= 100; ++i) {
    const auto handoff = std::make_shared<Handoff<std::unique_ptr<int>>>(io.get_executor());
    asio::co_spawn(io, take(handoff), asio::detached);
    threads.emplace_back([handoff, i] { handoff->Deliver(std::make_unique<int>(i)); });
  }
  const auto work = asio::make_work_guard(io);
  while (sum < 5050) io.run_one();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 5050);
}

}  // namespace
}  // namespace quire
