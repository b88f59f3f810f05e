// Tests work on the threads of a pool beside the I/O thread: the order of clients and their shares of processor time,
// cancellation, and coroutines that wait for results. The thread sanitizer runs these tests, too (CONTRIBUTING.md).
#include "coordinator/http/work_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <string>

#include "comm/base/thread_time.h"
#include "coordinator/api/openai/on_pool.h"

namespace quire {
namespace {

namespace asio = boost::asio;

constexpr size_t kSmall = 100, kLarge = 1 << 20;

/// Makes jobs that run until Open is called.
class Gate {
 public:
  WorkPool::Work Work() {
    return [this](const std::stop_token&) {
      ++entered_;
      entered_.notify_all();
      open_.wait(false);
    };
  }
  void AwaitEntered(int count) {
    for (int now = entered_; now < count; now = entered_) entered_.wait(now);
  }
  void Open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<int> entered_{0};
  std::atomic<bool> open_{false};
};

TEST(WorkPoolTest, Clients_TakeTurns_HoweverManyJobsOneClientQueued) {
  WorkPool pool({.threads = 2});
  Gate gate;
  pool.Add("z", kSmall, gate.Work());
  pool.Add("z", kLarge, gate.Work());
  gate.AwaitEntered(2);  // both threads are busy now
  std::mutex mutex;
  std::string order;
  const auto note = [&](char who) {
    return [&, who](const std::stop_token&) {
      const std::lock_guard lock(mutex);
      order += who;
    };
  };
  // Large jobs use one thread, so their order is fixed.
  for (int i = 0; i < 5; ++i) pool.Add("a", kLarge, note('a'));
  pool.Add("b", kLarge, note('b'));
  for (int i = 0; i < 2; ++i) pool.Add("c", kLarge, note('c'));
  EXPECT_EQ(pool.num_waiting(), 8u);
  std::promise<void> last;
  pool.Add("a", kLarge, [&](const std::stop_token&) { last.set_value(); });
  gate.Open();
  last.get_future().wait();
  EXPECT_EQ(order, "abcacaaa");
}

TEST(WorkPoolTest, LargeJobs_LeaveOneThreadToSmallJobs) {
  WorkPool pool({.threads = 2});
  Gate gate;
  for (int i = 0; i < 10; ++i) pool.Add(std::to_string(i), kLarge, gate.Work());
  gate.AwaitEntered(1);
  std::promise<void> done;
  pool.Add("patient", kSmall, [&](const std::stop_token&) { done.set_value(); });
  done.get_future().wait();  // would wait for ever if large jobs took both threads
  EXPECT_EQ(pool.num_waiting(), 9u);
  gate.Open();
}

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WorkSharesTest, Clients_ShareATwentiethOfTheCores_BeyondTheirInitialAllowance) {
  WorkShares shares(2);
  const WorkShares::Clock::time_point begin{};
  auto now = begin;
  int jobs = 0;
  for (; now < begin + seconds(100); ++jobs) {  // runs as many jobs of 10 ms as allowed
    now = std::max(now, shares.Next("mallory"));
    shares.Charge("mallory", milliseconds(10), now);
  }
  EXPECT_NEAR(jobs, 1000 + 20, 3);
  EXPECT_LE(shares.Next("alice"), now) << "one client's work is not another's";
  shares.Charge("alice", milliseconds(10), now);
  const auto before = shares.Next("mallory");
  shares.Charge("mallory", milliseconds(10), now);
  EXPECT_NEAR((shares.Next("mallory") - before) / milliseconds(1), 200, 1) << "two clients have half as much each";
  EXPECT_EQ(shares.num_clients(), 2u);
  shares.Charge("bob", milliseconds(1), now + seconds(100));
  EXPECT_EQ(shares.num_clients(), 1u) << "nothing is kept of those who rested";
}

TEST(WorkSharesTest, Client_MayTakeTheGivenTimeAtOnce) {
  WorkShares shares(2, milliseconds(1000));
  const WorkShares::Clock::time_point begin{};
  shares.Charge("mallory", milliseconds(1000), begin);
  EXPECT_LE(shares.Next("mallory"), begin);
  shares.Charge("mallory", milliseconds(10), begin);
  EXPECT_GT(shares.Next("mallory"), begin + milliseconds(99));
  EXPECT_LT(shares.Next("mallory"), begin + milliseconds(101));
}

TEST(WorkSharesTest, LongJob_MakesItsClientRest_AtMostAMinute) {
  WorkShares shares(2);
  const WorkShares::Clock::time_point begin{};
  shares.Charge("a", seconds(3600), begin);
  EXPECT_EQ(shares.Next("a"), begin + seconds(60));
}

TEST(WorkSharesTest, ManyClientsWithLongJobs_TakeAboutATwentiethOfTheCores) {
  WorkShares shares(2);
  const WorkShares::Clock::time_point begin{};
  const auto end = begin + seconds(600);
  auto taken = milliseconds(0);
  for (auto now = begin; now < end; now += milliseconds(100)) {
    for (const char* client : {"a", "b", "c", "d"}) {
      if (shares.Next(client) > now) continue;
      shares.Charge(client, milliseconds(1600), now);
      taken += milliseconds(1600);
    }
  }
  EXPECT_GT(taken, seconds(50));
  EXPECT_LT(taken, seconds(85)) << "a twentieth of two cores is 60 s";
}

/// Returns work that uses a core for `time`.
WorkPool::Work Busy(milliseconds time, std::atomic<int>& done) {
  return [time, &done](const std::stop_token&) {
    const auto end = ThreadTime() + time;
    while (ThreadTime() < end) {
    }
    ++done;
    done.notify_all();
  };
}

void AwaitDone(const std::atomic<int>& done, int count) {
  for (int now = done; now < count; now = done) done.wait(now);
}

TEST(WorkPoolTest, ClientBeyondItsShare_WaitsWhileWorkersCompute_ButOtherClientsDoNot) {
  WorkPool pool({.threads = 1, .large_bytes = SIZE_MAX, .beside_workers = true});
  std::atomic<int> mallory{0}, alice{0};
  // `much` is more time than the client's allowance. After so much work the client's jobs must wait for 2 to 5 s.
  const milliseconds much(200 + std::max(100U, 100 * std::thread::hardware_concurrency()));
  {
    const WorkPool::Computing computing(pool);
    pool.Add("mallory", kSmall, Busy(much, mallory));
    AwaitDone(mallory, 1);
    pool.Add("mallory", kSmall, Busy(milliseconds(0), mallory));
    pool.Add("alice", kSmall, Busy(milliseconds(0), alice));
    AwaitDone(alice, 1);
    EXPECT_EQ(mallory, 1);
  }
  AwaitDone(mallory, 2);  // ends immediately, because no worker computes
  const WorkPool::Computing computing(pool);
  pool.Add("mallory", kSmall, Busy(milliseconds(0), mallory));
  AwaitDone(mallory, 3);  // ends after the client's wait, although no event wakes a thread
}

TEST(WorkPoolTest, Client_RestsForTheTimeOfAnotherProcess_WhenItsJobChargesThatTimeToo) {
  WorkPool pool({.threads = 1, .large_bytes = SIZE_MAX, .beside_workers = true});
  std::atomic<int> mallory{0}, alice{0};
  const WorkPool::Computing computing(pool);
  pool.Add("mallory", kSmall, [&](const std::stop_token& stop) {
    WorkPool::ChargeAlso(std::chrono::hours(1));
    Busy(milliseconds(0), mallory)(stop);
  });
  AwaitDone(mallory, 1);
  pool.Add("mallory", kSmall, Busy(milliseconds(0), mallory));
  pool.Add("alice", kSmall, Busy(milliseconds(0), alice));
  AwaitDone(alice, 1);
  EXPECT_EQ(mallory, 1);
}

TEST(WorkPoolTest, Client_DoesNotRest_OnProcessorsThatWorkersDoNotUse) {
  WorkPool pool({.threads = 2});
  const WorkPool::Computing computing(pool);
  std::atomic<int> mallory{0}, alice{0};
  pool.Add("mallory", kSmall, Busy(milliseconds(600), mallory));
  AwaitDone(mallory, 1);
  Gate gate;
  pool.Add("alice", kSmall, gate.Work());
  pool.Add("mallory", kSmall, Busy(milliseconds(0), mallory));
  pool.Add("alice", kSmall, Busy(milliseconds(0), alice));  // queued after mallory's job, on the free thread
  AwaitDone(alice, 1);
  EXPECT_EQ(mallory, 2);
  gate.Open();
}

TEST(WorkPoolTest, PoolThreads_HaveALowerPriority) {
  WorkPool pool({.threads = 2});
  std::promise<int> nice;
  pool.Add("a", kSmall, [&](const std::stop_token&) { nice.set_value(getpriority(PRIO_PROCESS, 0)); });
  EXPECT_EQ(nice.get_future().get(), std::min(19, getpriority(PRIO_PROCESS, 0) + 5));
}

TEST(WorkPoolTest, WaitingJobs_AreBounded_PerClientAndInTotal) {
  WorkPool pool({.threads = 2, .jobs = 5, .jobs_per_client = 3});
  Gate gate;
  pool.Add("z", kSmall, gate.Work());
  pool.Add("z", kSmall, gate.Work());
  gate.AwaitEntered(2);
  const auto add = [&](const char* client) {
    return pool.Add(client, kSmall, [](const std::stop_token&) {}) != nullptr;
  };
  EXPECT_TRUE(add("a") && add("a") && add("a"));
  EXPECT_FALSE(add("a"));
  EXPECT_TRUE(add("b") && add("b"));
  EXPECT_FALSE(add("c"));
  gate.Open();
}

TEST(WorkPoolTest, Cancel_DropsWaitingWork_AndStopsRunningWork) {
  WorkPool pool({.threads = 2});
  Gate gate;
  std::promise<void> begun;
  const auto endless = pool.Add("a", kLarge, [&](const std::stop_token& stop) {
    begun.set_value();
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  begun.get_future().wait();
  const auto held = std::make_shared<int>(5);
  bool ran = false;
  const auto waiting = pool.Add("a", kLarge, [&ran, held](const std::stop_token&) { ran = true; });
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_TRUE(pool.Cancel(waiting));
  EXPECT_EQ(held.use_count(), 1) << "what it needed is freed at once";
  EXPECT_FALSE(pool.Cancel(waiting));
  EXPECT_EQ(pool.num_waiting(), 0u);
  EXPECT_FALSE(pool.Cancel(endless));
  std::promise<void> after;
  pool.Add("a", kLarge, [&](const std::stop_token&) { after.set_value(); });
  after.get_future().wait();  // the endless job has ended
  EXPECT_FALSE(ran);
}

TEST(WorkPoolTest, Stop_DropsWaitingWork_AndAwaitsRunningWork) {
  std::atomic<int> ended{0}, ran{0};
  {
    WorkPool pool({.threads = 2});
    std::promise<void> begun;
    pool.Add("a", kLarge, [&](const std::stop_token& stop) {
      begun.set_value();
      while (!stop.stop_requested()) std::this_thread::yield();
      ++ended;
    });
    begun.get_future().wait();
    for (int i = 0; i < 100; ++i) pool.Add("b", kLarge, [&](const std::stop_token&) { ++ran; });
    pool.Stop();
    EXPECT_EQ(pool.Add("c", kSmall, [&](const std::stop_token&) { ++ran; }), nullptr);
  }
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(ran, 0);
}

/// A responder with a client that can leave.
class FakeResponder : public HttpResponder {
 public:
  asio::awaitable<void> Send(HttpResponse) override { co_return; }
  asio::awaitable<void> BeginStream() override { co_return; }
  asio::awaitable<void> BeginPieces(std::string) override { co_return; }
  asio::awaitable<void> Write(std::string) override { co_return; }
  asio::awaitable<void> EndStream() override { co_return; }
  bool gone() const override { return gone_; }
  void Leave() {
    gone_ = true;
    if (on_gone) on_gone();
  }

 private:
  bool gone_ = false;
};

class OnPoolTest : public testing::Test {
 protected:
  using Work = std::function<int(const std::stop_token&)>;
  struct Result {
    bool ended = false;
    std::optional<int> value;
    std::string error;
  };

  asio::awaitable<void> Await(Work work, Result& result) {
    try {
      result.value = co_await OnPool(pool_, responder_, "a", kLarge, std::move(work));
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    result.ended = true;
  }
  void Begin(Work work, Result& result) { asio::co_spawn(io_, Await(std::move(work), result), asio::detached); }
  void RunUntil(const std::function<bool()>& condition) {
    const auto busy = asio::make_work_guard(io_);
    io_.restart();
    while (!condition()) io_.run_one_for(std::chrono::milliseconds(10));
  }

  asio::io_context io_{1};
  WorkPool pool_{{.threads = 2}};
  FakeResponder responder_;
};

TEST_F(OnPoolTest, OnPool_ReturnsValuesAndErrors) {
  Result five, failed;
  Begin([](const std::stop_token&) { return 5; }, five);
  RunUntil([&] { return five.ended; });
  Begin([](const std::stop_token&) -> int { throw std::runtime_error("broken"); }, failed);
  RunUntil([&] { return failed.ended; });
  EXPECT_EQ(five.value, 5);
  EXPECT_EQ(failed.error, "broken");
  EXPECT_FALSE(responder_.on_gone);
}

TEST_F(OnPoolTest, OnPool_StopsRunningWork_WhenTheClientLeaves) {
  bool told = false;
  responder_.on_gone = [&] { told = true; };
  std::atomic<bool> begun{false};
  Result running;
  Begin(
      [&](const std::stop_token& stop) {
        begun = true;
        while (!stop.stop_requested()) std::this_thread::yield();
        return 1;
      },
      running);
  RunUntil([&] { return begun.load(); });
  responder_.Leave();
  RunUntil([&] { return running.ended; });
  EXPECT_EQ(running.value, std::nullopt);
  EXPECT_FALSE(told) << "while the work goes on, leaving means to end it";
  EXPECT_TRUE(responder_.on_gone) << "afterwards it means what it meant before";
}

TEST_F(OnPoolTest, OnPool_RefusesARequest_WhoseWorkExceedsTheTimeLimitOfAJob) {
  WorkPool pool({.threads = 2, .job_time = std::chrono::milliseconds(50)});
  const auto end = [&](Work work) {
    std::optional<int> value;
    ApiError error(0, "");
    bool ended = false;
    const auto await = [&]() -> asio::awaitable<void> {
      try {
        value = co_await OnPool(pool, responder_, "a", kSmall, std::move(work));
      } catch (const ApiError& refusal) {
        error = refusal;
      }
      ended = true;
    };
    asio::co_spawn(io_, await(), asio::detached);
    RunUntil([&] { return ended; });
    return std::pair(value, error);
  };
  std::chrono::nanoseconds took{0};
  const auto [none, refusal] = end([&](const std::stop_token& stop) -> int {
    const auto begin = ThreadTime();
    while (!stop.stop_requested()) {
    }
    took = ThreadTime() - begin;
    throw std::runtime_error("stopped");
  });
  EXPECT_EQ(none, std::nullopt);
  EXPECT_EQ(refusal.status, 400);
  EXPECT_TRUE(refusal.retry_in_vain);
  EXPECT_NE(std::string(refusal.what()).find("send less text"), std::string::npos) << refusal.what();
  EXPECT_GE(took, std::chrono::milliseconds(45));
  // A job that only waits takes no processor time.
  const auto [five, no_refusal] = end([](const std::stop_token& stop) {
    for (int i = 0; i < 30 && !stop.stop_requested(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return stop.stop_requested() ? 6 : 5;
  });
  EXPECT_EQ(five, 5);
  EXPECT_EQ(no_refusal.status, 0);
}

TEST_F(OnPoolTest, OnPool_DropsWaitingWork_WhenTheClientLeaves) {
  Gate gate;
  pool_.Add("z", kLarge, gate.Work());
  gate.AwaitEntered(1);
  bool ran = false;
  Result waiting, late;
  const auto work = [&](const std::stop_token&) {
    ran = true;
    return 1;
  };
  Begin(work, waiting);
  RunUntil([&] { return pool_.num_waiting() == 1; });
  responder_.Leave();
  RunUntil([&] { return waiting.ended; });
  Begin(work, late);  // the client left before this call
  RunUntil([&] { return late.ended; });
  EXPECT_EQ(pool_.num_waiting(), 0u);
  gate.Open();
  pool_.Stop();
  EXPECT_FALSE(ran || waiting.value || late.value);
}

}  // namespace
}  // namespace quire
