#include "coordinator/batches/member_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(MemberTextTest, MemberText_ReturnsTheOriginalTextOfAMember) {
  const std::string_view line = R"( { "a" : {"zebra": 1.50, "mango": [18446744073709551616, "}\"]"], "apple": {} } ,)"
                                R"( "b":"x,\\" ,"\u0063":-1e400,"d":[ ],"e":null} )";
  EXPECT_EQ(MemberText(line, "a"), R"({"zebra": 1.50, "mango": [18446744073709551616, "}\"]"], "apple": {} })");
  EXPECT_EQ(MemberText(line, "b"), R"("x,\\")");
  EXPECT_EQ(MemberText(line, "c"), "-1e400");
  EXPECT_EQ(MemberText(line, "d"), "[ ]");
  EXPECT_EQ(MemberText(line, "e"), "null");
  EXPECT_EQ(MemberText(line, "zebra"), "");
  EXPECT_EQ(MemberText("{}", "a"), "");
}

TEST(MemberTextTest, MemberText_IsEmpty_WhenTheTextIsNoObject) {
  for (const char* text : {"", " ", "[1]", "{", "{\"a", "{\"a\"", "{\"a\":", "{\"b\": [", "7", "{\"b\":\"\\"})
    EXPECT_EQ(MemberText(text, "a"), "") << text;
}

}  // namespace
}  // namespace quire
