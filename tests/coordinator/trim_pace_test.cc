#include "coordinator/http/trim_pace.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(TrimPaceTest, Memory_IsTrimmed_AfterManyConnections_AtMostOnceInTenSeconds) {
  TrimPace pace;
  TrimPace::Clock::time_point now(std::chrono::hours(1));
  int trims = 0;
  for (int i = 1; i < TrimPace::kEndedBetween; ++i) EXPECT_FALSE(pace.Count(now)) << i;
  EXPECT_EQ(pace.Count(now), now);
  for (int i = 0; i < 90000; ++i) {
    now += std::chrono::microseconds(100);  // nine seconds in all
    const auto when = pace.Count(now);
    if (!when) continue;
    ++trims;
    EXPECT_GE(*when, now);
    EXPECT_GE(*when, TrimPace::Clock::time_point(std::chrono::hours(1)) + TrimPace::kApart * trims);
  }
  EXPECT_EQ(trims, 1);
}

}  // namespace
}  // namespace quire
