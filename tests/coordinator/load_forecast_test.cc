// Tests of the load forecast of `quire plan --simulate`: reading of traces, and simulated requests with steps of known
// duration.
#include "coordinator/plan/load_forecast.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "comm/base/error.h"
#include "comm/base/percentile.h"
#include "comm/model/model_files.h"

namespace quire {
namespace {

class TraceTest : public testing::Test {
 protected:
  ~TraceTest() override { std::filesystem::remove(path_); }
  std::vector<TracedRequest> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadTrace(path_);
  }
  std::string Problem(const std::string& text) {
    try {
      Read(text);
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(std::min(what.size(), path_.size()));
    }
    return "";
  }

  const std::string path_ =
      testing::TempDir() + "/trace-" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
};

TEST_F(TraceTest, ReadTrace_SortsRequestsByTime) {
  const auto trace = Read(
      "{\"timestamp\": 3500, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [7, 9]}\n\n"
      "{\"timestamp\": 1000, \"input_length\": 3, \"output_length\": 2, \"session\": \"x\"}\n");
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].seconds, 0) << "the trace begins with its first request";
  EXPECT_EQ(trace[0].prompt_tokens, 3);
  EXPECT_EQ(trace[1].seconds, 2.5);
  EXPECT_EQ(trace[1].tokens, 5);
  EXPECT_EQ(trace[1].hashes, (std::vector<int64_t>{7, 9}));
}

TEST_F(TraceTest, ReadTrace_NamesTheLine_WhenALineIsInvalid) {
  const std::string good = "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 2}\n";
  EXPECT_EQ(Problem(good), "");
  EXPECT_EQ(Problem(""), " holds no requests");
  EXPECT_EQ(Problem(good + "[]"), ":2: is no object");
  EXPECT_EQ(Problem(good + "{\"timestamp\": 0, \"input_length\": 3}"), ":2: output_length is missing");
  EXPECT_NE(Problem("{\"timestamp\": -1, \"input_length\": 3, \"output_length\": 2}").find("timestamp must be"),
            std::string::npos);
  EXPECT_NE(Problem("{\"timestamp\": 0, \"input_length\": 1e300, \"output_length\": 2}").find("input_length must be"),
            std::string::npos);
  EXPECT_NE(Problem("{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 2, \"hash_ids\": [1]}")
                .find("hash_ids must be a number for each 512 tokens of the prompt: 2"),
            std::string::npos);
  EXPECT_NE(Problem("{").substr(0, 3), "");
  EXPECT_THROW(ReadTrace("/nowhere/trace.jsonl"), Error);
}

TEST(TokensOfTest, Tokens_AreEqual_ForEqualHashesOfATrace) {
  const TracedRequest a{0, 600, 1, {1, 2}}, b{0, 600, 1, {1, 3}}, none{0, 600, 1, {}};
  const auto tokens = TokensOf(a, 0, 1000), others = TokensOf(b, 1, 1000);
  EXPECT_EQ(tokens.size(), 600u);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + 512, others.begin()));
  EXPECT_FALSE(std::equal(tokens.begin() + 512, tokens.end(), others.begin() + 512));
  EXPECT_NE(TokensOf(none, 0, 1000), TokensOf(none, 1, 1000));
  EXPECT_TRUE(std::ranges::all_of(tokens, [](TokenId token) { return token >= 0 && token < 1000; }));
}

/// A plan of one rank that takes one second per step to read the weights, and has blocks of 16 tokens.
class ForecastTest : public testing::Test {
 protected:
  ForecastTest() {
    plan_.assignment.block_size = 16;
    plan_.assignment.max_step_tokens = 100;
    plan_.ranks.resize(1);
    plan_.ranks[0].weight_bytes = 950'000;  // the device reads 1e6 bytes per second at an efficiency of 95 %
    plan_.pools.num_blocks = 1001;
    plan_.model_len = 4000;
    topology_.scheduler.max_running = 8;
    topology_.limits.queue_seconds = 60;
    topology_.limits.request_seconds = 600;
  }

  LoadRow Run(const std::vector<TracedRequest>& trace, double rate = 1) {
    return Forecast(topology_, model_.spec(), plan_,
                    {.read_bytes = 1e6, .products = 1e15, .attention = 1e15, .multiply_add = 1e15}, trace, rate);
  }

  const ModelFiles model_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  Topology topology_;
  MemoryPlan plan_;
};

TEST_F(ForecastTest, SingleRequest_TakesTheTimeOfItsSteps) {
  const LoadRow row = Run({{0, 250, 4, {}}});  // three steps for the prompt; the last one samples a token
  EXPECT_EQ(row.answered, 1);
  ASSERT_EQ(row.first_token.size(), 1u);
  EXPECT_NEAR(row.first_token[0], 3, 1e-6);
  ASSERT_EQ(row.each_token.size(), 1u);
  EXPECT_NEAR(row.each_token[0], 1, 1e-6);
  EXPECT_NEAR(row.tokens_a_second, 4 / 6.0, 1e-6);
  EXPECT_EQ(row.mean_running, 1);
}

TEST_F(ForecastTest, SimultaneousRequests_ShareSteps) {
  const LoadRow row = Run({{0, 10, 5, {}}, {0, 10, 5, {}}, {0, 10, 5, {}}, {0, 10, 5, {}}});
  EXPECT_EQ(row.answered, 4);
  EXPECT_NEAR(row.tokens_a_second, 20 / 5.0, 1e-6);
  EXPECT_EQ(row.mean_running, 4);
}

TEST_F(ForecastTest, HigherRate_MakesRequestsOverlap) {
  const std::vector<TracedRequest> apart = {{0, 10, 5, {}}, {20, 10, 5, {}}};
  EXPECT_EQ(Run(apart).mean_running, 1);
  const LoadRow close = Run(apart, 20);
  EXPECT_GT(close.mean_running, 1);
  EXPECT_EQ(close.requests_a_second, 2);
  EXPECT_GT(close.first_token[1], 1) << "a step was under way when it came";
}

TEST_F(ForecastTest, SharedPrefixes_AreReadFromTheCache_UnlessCachingIsOff) {
  const std::vector<TracedRequest> trace = {{0, 600, 2, {1, 2}}, {100, 600, 2, {1, 3}}};
  const LoadRow row = Run(trace);
  EXPECT_EQ(row.cached_tokens, 512);
  EXPECT_EQ(row.prompt_tokens, 1200);
  EXPECT_NEAR(row.first_token[1], 1, 1e-6);
  topology_.cache.prefix_caching = false;
  EXPECT_EQ(Run(trace).cached_tokens, 0);
}

TEST_F(ForecastTest, RefusedAndTimedOutRequests_AreCounted) {
  const std::vector<TracedRequest> many(20, {0, 10, 5, {}});
  topology_.scheduler.max_waiting = 10;
  EXPECT_EQ(Run(many).refused, 20 - 10) << "nobody runs yet when all have come";
  topology_.scheduler.max_waiting = 1000;
  EXPECT_EQ(Run(many).answered, 20);
  topology_.limits.queue_seconds = 7;
  const LoadRow late = Run(many);
  EXPECT_EQ(late.answered, 16) << "two rounds of eight";
  EXPECT_EQ(late.timed_out, 4);
  EXPECT_EQ(Run({{0, 5000, 5, {}}}).refused, 1) << "longer than a sequence may be";
}

TEST_F(ForecastTest, Forecast_RunsHalfOfTheRequests_WhenThereAreTwoReplicas) {
  topology_.parallel.replicas = 2;
  EXPECT_EQ(Run(std::vector<TracedRequest>(9, {0, 10, 5, {}})).answered, 5);
}

TEST(PercentileTest, Percentile_IsAnElementOfTheList) {
  EXPECT_EQ(Percentile({}, 0.5), 0);
  EXPECT_EQ(Percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Percentile({3, 1, 2}, 0.99), 3);
}

}  // namespace
}  // namespace quire
