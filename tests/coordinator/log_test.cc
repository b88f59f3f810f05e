#include "coordinator/log/log.h"

#include <gtest/gtest.h>

#include <thread>

namespace quire {
namespace {

TEST(LogTest, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(WithoutControls("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(WithoutControls(std::string_view("\x1b[31m\x7f\0", 7)), "\\x1b[31m\\x7f\\x00");
  EXPECT_EQ(WithoutControls("\xc2\x9b"), "\\u009b");             // CSI in one character
  EXPECT_EQ(WithoutControls("\xc2\xa0 é 日"), "\xc2\xa0 é 日");  // text stays
  EXPECT_EQ(WithoutControls("\xc2"), "\xc2");
}

TEST(LogTest, NamesOfThreadsNest) {
  EXPECT_EQ(LogName::Current(), "");
  {
    const LogName outer("replica 1");
    {
      const LogName inner("replica 2");
      EXPECT_EQ(LogName::Current(), "replica 2");
      std::thread([] { EXPECT_EQ(LogName::Current(), "") << "other threads take it along by themselves"; }).join();
    }
    EXPECT_EQ(LogName::Current(), "replica 1");
  }
  EXPECT_EQ(LogName::Current(), "");
}

}  // namespace
}  // namespace quire
