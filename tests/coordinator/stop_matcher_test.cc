#include "coordinator/text/stop_matcher.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace quire {
namespace {

struct Shown {
  std::string text;
  bool stopped = false;
};

Shown Feed(StopMatcher matcher, const std::vector<std::string>& pieces) {
  Shown shown;
  for (const std::string& piece : pieces) {
    const StopMatcher::Output out = matcher.Push(piece);
    shown.text += out.text;
    if ((shown.stopped = out.stopped)) return shown;
  }
  shown.text += matcher.Finish();
  return shown;
}

TEST(StopMatcherTest, Push_HoldsTextBack_WhileItMayBecomeAStopString) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(matcher.Push("abE").text, "ab");
  EXPECT_EQ(matcher.Push("N").text, "");
  EXPECT_EQ(matcher.Push("x").text, "ENx");
  EXPECT_EQ(matcher.Push("EN").text, "");
  const auto out = matcher.Push("D tail");
  EXPECT_TRUE(out.stopped);
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.stop, "END");
}

TEST(StopMatcherTest, EarliestStopString_EndsTheText_AndMayBeIncluded) {
  EXPECT_EQ(Feed(StopMatcher({"yy", "x"}, false), {"abxyy"}).text, "ab");
  EXPECT_EQ(Feed(StopMatcher({"yy", "x"}, true), {"abxyy"}).text, "abx");
  EXPECT_EQ(StopMatcher({"yy", "x"}, false).Push("abxyy").stop, "x");
  EXPECT_EQ(Feed(StopMatcher({}, false), {"a", "b"}).text, "ab");
}

// Tests stop strings that overlap themselves, in texts that nearly contain them. The matcher must reuse partial
// matches.
TEST(StopMatcherTest, SelfOverlappingStopStrings_AreFound_WhereTheirFirstOccurrenceEnds) {
  const std::string run(900, 'a');
  EXPECT_EQ(Feed(StopMatcher({run + "b", "aaba"}, false), {run, run, "aab", "x"}).text, std::string(902, 'a'));
  EXPECT_EQ(Feed(StopMatcher({"abcabd", "bcabcabe"}, false), {"abcabcabcabe"}).text, "abca");
  StopMatcher held({run + "b", std::string(300, 'a') + "c"}, false);
  for (int i = 0; i < 50; ++i) held.Push(run);
  EXPECT_EQ(held.Finish(), run) << "no more than may begin a stop";
  const StopMatcher::Output out = StopMatcher({run + "b"}, false).Push(run + run + "b and more");
  EXPECT_EQ(out.text, run);
  EXPECT_TRUE(out.stopped);
}

// The result must not depend on how the text is cut.
TEST(StopMatcherTest, Result_EqualsTheResultOfTheWholeText_HoweverTheTextIsCut) {
  test::Random random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int64_t i = random.Below(30); i > 0; --i) text += static_cast<char>('a' + random.Below(2));
    std::vector<std::string> stops, pieces;
    for (int64_t i = random.Below(3); i >= 0; --i) {
      std::string stop;
      for (int64_t j = random.Between(1, 5); j > 0; --j) stop += static_cast<char>('a' + random.Below(2));
      stops.push_back(stop);
    }
    size_t first = std::string::npos;
    for (const auto& stop : stops) first = std::min(first, text.find(stop));
    for (size_t at = 0; at < text.size();) {
      const auto length = static_cast<size_t>(random.Between(1, 4));
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    const Shown shown = Feed(StopMatcher(stops, false), pieces);
    ASSERT_EQ(shown.stopped, first != std::string::npos) << text;
    if (!shown.stopped) {
      ASSERT_EQ(shown.text, text);
    } else {
      // The shown text ends where a stop string begins, and contains no stop string. Another, longer stop string may
      // begin earlier and end later.
      ASSERT_EQ(text.rfind(shown.text, 0), 0u);
      bool at_stop = false;
      for (const auto& stop : stops) {
        at_stop = at_stop || text.compare(shown.text.size(), stop.size(), stop) == 0;
        ASSERT_EQ(shown.text.find(stop), std::string::npos) << text;
      }
      ASSERT_TRUE(at_stop) << text;
    }
  }
}

}  // namespace
}  // namespace quire
