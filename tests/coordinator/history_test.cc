#include "coordinator/metrics/history.h"

#include <gtest/gtest.h>

#include <limits>

#include "comm/base/json.h"
#include "coordinator/metrics/series.h"

namespace quire {
namespace {

using Buckets = std::vector<CountedBucket>;
constexpr double kNoBound = std::numeric_limits<double>::infinity();

TEST(Series, Labels_HaveNoControlCharacters) {
  prometheus::Registry registry;
  const Series series(registry, {{"model_name", "m\x1b[2J"}});
  series.With("host", "h\n\u009bx").Gauge("quire:test", "A test");
  const auto families = registry.Collect();
  ASSERT_EQ(families.size(), 1u);
  std::map<std::string, std::string> labels;
  for (const auto& label : families[0].metric.at(0).label) labels[label.name] = label.value;
  EXPECT_EQ(labels, (std::map<std::string, std::string>{{"model_name", "m\\x1b[2J"}, {"host", "h\\n\\u009bx"}}));
}

TEST(QuantileBetween, QuantileBetween_CountsOnlyValuesBetweenTwoReadings) {
  const Buckets before = {{0.1, 100}, {0.2, 100}, {kNoBound, 100}};
  const Buckets now = {{0.1, 110}, {0.2, 120}, {kNoBound, 120}};
  EXPECT_NEAR(*QuantileBetween(before, now, 0.5), 0.1, 1e-9);
  EXPECT_NEAR(*QuantileBetween(before, now, 0.25), 0.05, 1e-9);
  EXPECT_NEAR(*QuantileBetween(before, now, 0.75), 0.15, 1e-9);
  EXPECT_NEAR(*QuantileBetween({}, now, 1), 0.2, 1e-9) << "without an earlier reading: of all";
}

TEST(QuantileBetween, QuantileBetween_ReturnsNoValue_WhenNoValueArrived) {
  const Buckets same = {{0.1, 3}, {kNoBound, 5}};
  EXPECT_EQ(QuantileBetween(same, same, 0.5), std::nullopt);
  EXPECT_EQ(QuantileBetween({}, {}, 0.5), std::nullopt);
}

TEST(QuantileBetween, QuantileBetween_ReturnsTheLastBound_WhenValuesExceedIt) {
  EXPECT_EQ(QuantileBetween({}, {{0.1, 0}, {2, 0}, {kNoBound, 4}}, 0.99), 2);
}

TEST(History, Report_ShowsTheGrowthOfCounters) {
  History history;
  EXPECT_TRUE(history.Report(0)["rows"].empty());
  HistoryReading reading;
  reading.time = 1000;
  reading.generated_tokens = 50;
  reading.refused = 3;
  history.Add(reading);
  EXPECT_TRUE(history.Report(0)["rows"].empty()) << "one reading shows no growth";
  reading.time = 1005;
  reading.generated_tokens = 150;
  reading.refused = 5;
  reading.cores_seconds = 10;
  reading.host_busy_seconds = 4;
  reading.host_seconds = 16;
  history.Add(reading);
  const Json report = history.Report(0);
  const Json& row = report["rows"].at(0);
  ASSERT_EQ(row.size(), report["columns"].size());
  const auto at = [&](const char* name) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (report["columns"][i] == name) return row[i];
    }
    return Json("no such column");
  };
  EXPECT_EQ(at("tokens_per_second"), 20);
  EXPECT_EQ(at("refused"), 2);
  EXPECT_EQ(at("failed"), 0);
  EXPECT_EQ(at("cores"), 2);
  EXPECT_EQ(at("host_busy"), 0.25);
  EXPECT_TRUE(at("first_token_p99").is_null());
}

TEST(History, Report_KeepsTheNewestRows_WhenTheHistoryIsFull) {
  History history;
  HistoryReading reading;
  for (size_t i = 0; i <= History::kRows + 10; ++i) {
    reading.time = static_cast<double>(i);
    history.Add(reading);
  }
  const Json rows = history.Report(0)["rows"];
  EXPECT_EQ(rows.size(), History::kRows);
  EXPECT_EQ(rows.front()[0], 11);
  EXPECT_EQ(rows.back()[0], static_cast<double>(History::kRows + 10));
  EXPECT_EQ(history.Report(static_cast<double>(History::kRows + 8))["rows"].size(), 2u) << "only later ones";
}

}  // namespace
}  // namespace quire
