#include "comm/base/json.h"

#include <gtest/gtest.h>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

/// Returns the reason why the text is refused, or "" when it is accepted.
std::string Refusal(const std::string& text) {
  return ErrorThrownBy([&] { ParseJson(text, "body"); });
}

std::string Nested(const char* open, const char* close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(JsonTest, ValidJson_IsAccepted) {
  for (const char* text : {"null",
                           "true",
                           " [ ] ",
                           "{}",
                           "-0",
                           "-0.0",
                           "1E+2",
                           "1e-2",
                           "0.5",
                           "123456789012345678901234567890",
                           "1e308",
                           "5e-324",
                           "9223372036854775807",
                           "-9223372036854775808",
                           "18446744073709551615",
                           R"("")",
                           R"("\u0000")",
                           R"("\"\\\/\b\f\n\r\t")",
                           R"("\ud83d\ude00")",
                           "\"\xf0\x9f\x98\x80\"",
                           "\"\x7f\"",
                           R"({"":0})",
                           R"({"a":{"a":1},"b":{"a":1}})",
                           "\t\r\n 1 \n"}) {
    EXPECT_EQ(Refusal(text), "") << text;
  }
}

TEST(JsonTest, InvalidOrAmbiguousJson_IsRefused_WithAShortErrorThatNamesTheText) {
  const std::vector<std::string> texts = {"",
                                          " ",
                                          "[",
                                          "]",
                                          "{",
                                          "[1",
                                          "[1,]",
                                          "[,1]",
                                          "[1 2]",
                                          "{\"a\"}",
                                          "{\"a\":}",
                                          "{\"a\":1,}",
                                          "{a:1}",
                                          "{'a':1}",
                                          "{1:1}",
                                          "{\"a\" 1}",
                                          "01",
                                          "-",
                                          "-01",
                                          "+1",
                                          ".5",
                                          "5.",
                                          "1e",
                                          "1e+",
                                          "0x1",
                                          "1_000",
                                          "NaN",
                                          "-NaN",
                                          "Infinity",
                                          "-Infinity",
                                          "nan",
                                          "True",
                                          "nul",
                                          "1e309",
                                          "-1e400",
                                          "[1]x",
                                          "1 2",
                                          "{}{}",
                                          "[] []",
                                          "\"",
                                          "\"\\x\"",
                                          "\"\\u12\"",
                                          "\"\\u12g4\"",
                                          "\"\n\"",
                                          "\"\t\"",
                                          "// a\n1",
                                          "/* a */ 1",
                                          "#1",
                                          "\"\\ud800\"",
                                          "\"\\udc00\"",
                                          "\"\\ud800\\ud800\"",
                                          "\"\\ud800x\"",
                                          "\"\\ude00\\ud83d\"",
                                          "\"\x80\"",
                                          "\"\xc0\xaf\"",
                                          "\"\xed\xa0\x80\"",
                                          "\"\xf5\x80\x80\x80\"",
                                          "\"\xe2\x82\"",
                                          "\"\xf0\x9f\x98\"",
                                          "\xff",
                                          "\xef\xbb\xbf{}",
                                          "{}\xef\xbb\xbf",
                                          "\xfe\xff",
                                          std::string("1\0", 2),
                                          std::string("\"a\0b\"", 5),
                                          std::string("\0", 1),
                                          R"({"a":1,"a":2})",
                                          R"({"a":1,"\u0061":2})",
                                          R"({"":1,"":2})",
                                          R"([{"x":{"b":1,"b":1}}])"};
  for (const std::string& text : texts) {
    EXPECT_TRUE(Refusal(text).starts_with("body: ")) << "\"" << text << "\": " << Refusal(text);
    EXPECT_LT(Refusal(text).size(), 300u);
  }
}

TEST(JsonTest, DepthAndNumberOfValues_AreBounded) {
  EXPECT_EQ(Refusal(Nested("[", "]", 32)), "");
  EXPECT_NE(Refusal(Nested("[", "]", 33)), "");
  EXPECT_EQ(Refusal(Nested("{\"a\":", "}", 32)), "");
  EXPECT_NE(Refusal(Nested("{\"a\":", "}", 33)), "");
  EXPECT_NE(Refusal(std::string(1'000'000, '[')), "") << "no stack for it";
  std::string many = "[0";
  for (int i = 0; i < 19'998; ++i) many += ",0";
  EXPECT_EQ(Refusal(many + "]"), "");
  EXPECT_NE(Refusal(many + ",0,0]"), "");
}

TEST(JsonTest, Errors_AreValidUtf8_WhenTheInputIsNot) {
  const std::string refusal = Refusal("[\"\xc3\x28\xff");
  EXPECT_NO_THROW(Json(refusal).dump()) << "valid UTF-8";
}

TEST(ExactJsonTest, IntegersAndMemberOrder_SurviveARoundTrip) {
  for (const std::string text :
       {R"({"zebra":18446744073709551616,"mango":[-9223372036854775809,[],{}],"apple":{"b":1,"a":[[1],{"x":null}]}})",
        "123456789012345678901234567890", "18446744073709551615", "-9223372036854775808",
        R"(["é\n\"",1.5,true,false])"})
    EXPECT_EQ(DumpExactJson(ParseExactJson(text)), text);
  EXPECT_EQ(LongInteger(ParseExactJson("18446744073709551616")), "18446744073709551616");
  EXPECT_EQ(LongInteger(ParseExactJson("18446744073709551615")), "");
  EXPECT_TRUE(ParseExactJson("1e30").is_number_float());
}

}  // namespace
}  // namespace quire
