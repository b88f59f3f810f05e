#include "comm/collective/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace quire {
namespace {

using Clock = Watchdog::Clock;
constexpr auto kInterval = std::chrono::milliseconds(1);

/// A watchdog with counters for it to watch, and the watchdog's first report.
struct Watched {
  std::atomic<int> probes = 0, reports = 0;
  std::atomic<bool> sick = false;
  std::promise<std::string> report;
  Watchdog dog{kInterval,
               [this] {
                 ++probes;
                 return std::string(sick ? "the peer is gone" : "");
               },
               [this](const std::string& why) {
                 if (++reports == 1) report.set_value(why);
               }};

  void AwaitProbes(int more) {
    for (const int before = probes; probes < before + more;) std::this_thread::yield();
  }
};

TEST(WatchdogTest, Watchdog_ReportsAFailedProbeOnce) {
  Watched watched;
  watched.AwaitProbes(3);
  EXPECT_EQ(watched.reports, 0);
  watched.sick = true;
  EXPECT_EQ(watched.report.get_future().get(), "the peer is gone");
  std::this_thread::sleep_for(5 * kInterval);
  EXPECT_EQ(watched.reports, 1);
}

TEST(WatchdogTest, Watchdog_ReportsADeadlineThatPasses) {
  Watched watched;
  watched.dog.ExpectDoneBy(Clock::now() + std::chrono::milliseconds(20));
  EXPECT_NE(watched.report.get_future().get().find("not done within"), std::string::npos);
}

TEST(WatchdogTest, Watchdog_ReportsNothing_WhenDeadlinesAreWithdrawn) {
  Watched watched;
  for (int i = 0; i < 20; ++i) {
    watched.dog.ExpectDoneBy(Clock::now() + std::chrono::seconds(60));
    watched.AwaitProbes(1);
    watched.dog.ExpectDoneBy(Clock::time_point::max());
    watched.AwaitProbes(1);
  }
  EXPECT_EQ(watched.reports, 0);
}

}  // namespace
}  // namespace quire
