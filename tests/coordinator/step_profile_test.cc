#include "coordinator/cluster/group/step_profile.h"

#include <gtest/gtest.h>

#include "comm/base/json.h"

namespace quire {
namespace {

TEST(StepProfileTest, Profile_RecordsOnlyBetweenBeginAndEnd) {
  StepProfile profile;
  EXPECT_EQ(profile.Record("plan", [] { return 7; }), 7);
  profile.Answered(0, 1, {10, 2});
  profile.Begin();
  EXPECT_TRUE(profile.records());
  EXPECT_EQ(profile.Record("plan", [] { return 8; }), 8);
  EXPECT_THROW(profile.Record("wait", []() -> int { throw std::runtime_error("lost"); }), std::runtime_error);
  const StepProfile::Recording recording = profile.End();
  ASSERT_EQ(recording.spans.size(), 2u) << "what fails took its time, too";
  EXPECT_STREQ(recording.spans[0].name, "plan");
  EXPECT_EQ(recording.spans[0].rank, StepProfile::kEngine);
  EXPECT_LE(recording.spans[0].begin, recording.spans[0].end);
  EXPECT_STREQ(recording.spans[1].name, "wait");
  profile.Answered(0, 2, {0, 0});
  EXPECT_TRUE(profile.End().spans.empty());
}

TEST(StepProfileTest, Profile_OmitsSpans_ThatStartedBeforeBegin) {
  StepProfile profile;
  profile.Begin();
  profile.Answered(0, 1, {60'000'000, 0});
  profile.Answered(1, 1, {0, 0});
  const StepProfile::Recording recording = profile.End();
  ASSERT_EQ(recording.spans.size(), 1u);
  EXPECT_EQ(recording.spans[0].rank, 1);
}

TEST(StepProfileTest, Profile_CountsSpansBeyondItsLimit) {
  StepProfile profile;
  profile.Begin();
  for (size_t i = 0; i < StepProfile::kMostSpans + 5; ++i) profile.Answered(0, i, {0, 0});
  const StepProfile::Recording recording = profile.End();
  EXPECT_EQ(recording.spans.size(), StepProfile::kMostSpans);
  EXPECT_EQ(recording.num_left_out, 5u);
  EXPECT_EQ(recording.spans.back().step, StepProfile::kMostSpans - 1) << "the first ones stay";
}

TEST(StepProfileTest, Trace_HasAProcessForEachReplica_AndAThreadForEachRank) {
  const auto begin = StepProfile::Clock::time_point(std::chrono::seconds(5));
  const auto at = [&](int micros) { return begin + std::chrono::microseconds(micros); };
  std::string events;
  AppendTrace({begin, {{"plan", StepProfile::kEngine, at(1), at(4)}, {"step", 2, at(5), at(25), 77, 3}}, 0}, 0, begin,
              events);
  AppendTrace({begin, {{"wait", StepProfile::kEngine, at(6), at(9)}}, 0}, 1, begin, events);
  const Json trace = ParseJson("[" + events + "]", "trace");
  ASSERT_EQ(trace.size(), 8u);
  const auto event = [](const char* name, int replica, int thread, int start, int length) {
    return Json{{"name", name}, {"ph", "X"}, {"pid", replica}, {"tid", thread}, {"ts", start}, {"dur", length}};
  };
  EXPECT_EQ(trace[0]["args"]["name"], "replica 0");
  EXPECT_EQ(trace[1]["args"]["name"], "engine");
  EXPECT_EQ(trace[2], event("plan", 0, 0, 1, 3));
  EXPECT_EQ(trace[3]["args"]["name"], "rank 2");
  Json step = event("step", 0, 3, 5, 20);
  step["args"] = {{"step", 77}, {"swap_us", 3}};
  EXPECT_EQ(trace[4], step);
  EXPECT_EQ(trace[5]["args"]["name"], "replica 1");
  EXPECT_EQ(trace[7], event("wait", 1, 0, 6, 3));
}

}  // namespace
}  // namespace quire
