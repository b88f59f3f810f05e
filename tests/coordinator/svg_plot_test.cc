#include "coordinator/bench/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace quire {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t Count(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Attributes as ` name="value"`, each once, until the text ends.
testing::AssertionResult AttributesAreRight(std::string_view text, std::string_view tag) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const size_t equals = text.find("=\"");
    if (text[0] != ' ' || equals == std::string_view::npos) return testing::AssertionFailure() << "in <" << tag << ">";
    const std::string_view name = text.substr(1, equals - 1);
    const size_t end = text.find('"', equals + 2);
    if (name.empty() || name.find_first_of(" \"") != std::string_view::npos || end == std::string_view::npos ||
        std::find(names.begin(), names.end(), name) != names.end()) {
      return testing::AssertionFailure() << "attribute " << name << " in <" << tag << ">";
    }
    names.push_back(name);
    text.remove_prefix(end + 1);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult TextIsEscaped(std::string_view text) {
  for (size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with("&amp;") && !rest.starts_with("&lt;") && !rest.starts_with("&gt;") &&
        !rest.starts_with("&quot;")) {
      return testing::AssertionFailure() << "a bare &: " << rest.substr(0, 20);
    }
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return testing::AssertionFailure() << "a control character";
  }
  return testing::AssertionSuccess();
}

/// The subset of XML that the writer uses: one root, tags that match, attributes in double quotes, escaped text.
testing::AssertionResult IsWellFormed(std::string_view text) {
  if (const auto escaped = TextIsEscaped(text); !escaped) return escaped;
  std::vector<std::string_view> open;
  int roots = 0;
  while (!text.empty()) {
    const size_t begin = text.find('<');
    const bool blank = text.substr(0, begin).find_first_not_of('\n') == std::string_view::npos;
    if (open.empty() && !blank) return testing::AssertionFailure() << "text outside the root";
    if (begin == std::string_view::npos) break;
    const size_t end = text.find('>', begin);
    if (end == std::string_view::npos) return testing::AssertionFailure() << "a tag does not end";
    std::string_view tag = text.substr(begin + 1, end - begin - 1);
    text.remove_prefix(end + 1);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return testing::AssertionFailure() << "<" << tag << ">";
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    if (closed) tag.remove_suffix(1);
    const std::string_view name = tag.substr(0, tag.find(' '));
    if (const auto right = AttributesAreRight(tag.substr(name.size()), name); !right) return right;
    if (open.empty()) ++roots;
    if (!closed) open.push_back(name);
  }
  if (!open.empty() || roots != 1) return testing::AssertionFailure() << roots << " roots, " << open.size() << " open";
  return testing::AssertionSuccess();
}

LineChart SomeLines() {
  return {"Waste & <size>",
          "block \"size\"",
          "%",
          true,
          0,
          {{"one", {{1, 0.5}, {16, 2}, {256, 40}}}, {"two > one", {{1, 3}, {256, 4}}}, {"none", {}}}};
}

TEST(SvgPlot, TheCheckerRefusesWhatIsNotXml) {
  EXPECT_TRUE(IsWellFormed("<a b=\"c\">d<e/></a>\n"));
  for (const char* bad :
       {"<a>", "<a></b>", "<a/><b/>", "<a b=c/>", "<a b=\"1\" b=\"2\"/>", "<a>&</a>", "x<a/>", "<a"}) {
    EXPECT_FALSE(IsWellFormed(bad)) << bad;
  }
}

TEST(SvgPlot, LineChartIsWellFormedAndHasEverySeries) {
  const std::string svg = DrawLineChart(SomeLines());
  EXPECT_TRUE(IsWellFormed(svg));
  EXPECT_EQ(Count(svg, "<polyline "), 3u);
  EXPECT_EQ(Count(svg, "<circle "), 5u);
  EXPECT_THAT(svg, HasSubstr("<title>Waste &amp; &lt;size&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr(">block &quot;size&quot;</text>"));
  EXPECT_THAT(svg, HasSubstr(">two &gt; one</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(SvgPlot, LogarithmicTicksArePowersOfTwo) {
  const std::string svg = DrawLineChart(SomeLines());
  for (const char* tick : {">1<", ">2<", ">64<", ">256<"}) EXPECT_THAT(svg, HasSubstr(tick));
  EXPECT_THAT(svg, Not(HasSubstr(">512<")));
}

TEST(SvgPlot, LinearTicksAreRound) {
  const std::string svg = DrawLineChart({"t", "x", "y", false, 0, {{"s", {{0.3, 0.1}, {2.9, 0.31}}}}});
  for (const char* tick : {">0<", ">0.5<", ">3<", ">0.1<", ">0.3<", ">0.4<"}) EXPECT_THAT(svg, HasSubstr(tick));
}

TEST(SvgPlot, TheTopOfTheYAxisCanBeGiven) {
  LineChart chart = SomeLines();
  chart.y_max = 10;
  const std::string svg = DrawLineChart(chart);
  EXPECT_THAT(svg, HasSubstr(">10<"));
  EXPECT_THAT(svg, Not(HasSubstr(">20<")));
}

TEST(SvgPlot, StackedBarsHaveOneRectanglePerBarAndLayer) {
  const StackedBarChart chart{"T<&>",
                              "% of slots",
                              {"a&b", "c", "d"},
                              {{"live", {90, 20, 0}}, {"waste", {9.5, 30, 0}}, {"free", {0.5, 50, 100}}}};
  const std::string svg = DrawStackedBars(chart);
  EXPECT_TRUE(IsWellFormed(svg));
  EXPECT_EQ(Count(svg, "<rect class=\"bar\" "), 9u);
  EXPECT_THAT(svg, HasSubstr("<title>T&lt;&amp;&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr(">a&amp;b</text>"));
  EXPECT_THAT(svg, HasSubstr(">90.0</text>"));
  EXPECT_THAT(svg, HasSubstr(">100<"));
  EXPECT_THAT(svg, Not(HasSubstr(">120<")));
}

TEST(SvgPlot, ChartsWithoutDataAndControlCharactersAreStillDocuments) {
  EXPECT_TRUE(IsWellFormed(DrawLineChart({})));
  EXPECT_TRUE(IsWellFormed(DrawStackedBars({})));
  EXPECT_TRUE(IsWellFormed(DrawLineChart({"a\x01\tb", "", "", false, 0, {{"flat", {{1, 0}, {1, 0}}}}})));
}

}  // namespace
}  // namespace quire
