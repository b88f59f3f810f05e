#include "coordinator/log/log.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(LogTest, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(WithoutControls("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(WithoutControls(std::string_view("\x1b[31m\x7f\0", 7)), "\\x1b[31m\\x7f\\x00");
  EXPECT_EQ(WithoutControls("\xc2\x9b"), "\\u009b");             // CSI in one character
  EXPECT_EQ(WithoutControls("\xc2\xa0 é 日"), "\xc2\xa0 é 日");  // text stays
  EXPECT_EQ(WithoutControls("\xc2"), "\xc2");
}

}  // namespace
}  // namespace quire
