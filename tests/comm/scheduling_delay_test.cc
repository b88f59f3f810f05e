#include "comm/base/scheduling_delay.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RecentDelayTest, LargestDelay_IsRemembered_ForOneOrTwoWindows) {
  const RecentDelay::Clock::time_point begin{seconds(1000)};
  RecentDelay delay;
  EXPECT_EQ(delay.largest(), seconds(0));
  delay.Note(milliseconds(50), milliseconds(40), begin);  // an event woke the thread early
  EXPECT_EQ(delay.largest(), seconds(0));
  delay.Note(milliseconds(50), milliseconds(850), begin + seconds(1));
  delay.Note(milliseconds(50), milliseconds(60), begin + seconds(2));
  EXPECT_EQ(delay.largest(), milliseconds(800));
  delay.Note(milliseconds(50), milliseconds(70), begin + seconds(6));
  EXPECT_EQ(delay.largest(), milliseconds(800));
  delay.Note(milliseconds(50), milliseconds(55), begin + seconds(11));
  EXPECT_EQ(delay.largest(), milliseconds(20));
  delay.Note(milliseconds(50), milliseconds(51), begin + seconds(100));
  EXPECT_EQ(delay.largest(), milliseconds(1));
}

TEST(StarvedMicrosTest, StarvedMicros_NeverDecreases) {
  const int64_t before = StarvedMicros();
  EXPECT_GE(before, 0);
  EXPECT_GE(StarvedMicros(), before);
}

}  // namespace
}  // namespace quire
