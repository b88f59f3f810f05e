// Compares pooled vectors, numbers of every token and classifiers' answers of encoders with HF transformers
// (tests/golden/make_encoder_golden.py). The real scheduler, block manager, frames, executors and collectives run.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

using test::CollectingSink;

constexpr int kLongest = 200;  // tokens of the longest prompt

struct EncoderGolden {
  std::vector<TokenId> prompt;
  int second_text = 0;
  std::map<Pooling, std::vector<float>> vectors;
};

std::vector<EncoderGolden> ReadCases(std::string model, bool mean) {
  model = model.substr(0, model.find(".gguf"));  // the GGUF file has the same weights
  const std::string path = std::string(QUIRE_TEST_DATA) + "/encoders.json";
  const Json json = ParseJson(ReadTextFile(path, 8 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
  std::vector<EncoderGolden> cases;
  for (const Json& c : json.at(model).at("cases")) {
    EncoderGolden golden{c.at("prompt").get<std::vector<TokenId>>(), c.at("second").get<int>(), {}};
    const auto read = [&](const char* name, Pooling pooling) {
      if (c.contains(name)) golden.vectors[pooling] = c.at(name).get<std::vector<float>>();
    };
    read("last", Pooling::kLast);
    read("mean", Pooling::kMean);
    read("cls", Pooling::kCls);
    read("all", Pooling::kAll);
    read("sparse", Pooling::kSparse);
    read("colbert", Pooling::kColbert);
    read("answer", mean ? Pooling::kMean : Pooling::kCls);
    cases.push_back(std::move(golden));
  }
  return cases;
}

struct EncoderCourse {
  std::vector<double> shares = {1};
  int max_step_tokens = kLongest;
  int num_blocks = 200;
  int threads = 1;
  std::vector<int32_t> stages = {};
};

class EncoderGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  /// Returns the vectors of all cases, each pooled in every way that the golden data has, in the order of the cases.
  std::vector<std::vector<float>> Pool(const EncoderCourse& course) const {
    const int max_running = 16;
    test::ThreadGroup group(
        files_, {16, course.max_step_tokens, max_running, kLongest, course.threads, course.shares, {}, course.stages},
        course.num_blocks);
    EngineOptions options;
    options.scheduler.max_step_tokens = course.max_step_tokens;
    options.scheduler.max_running = max_running;
    options.scheduler.pass_stages = static_cast<int>(files_.spec().num_layers()) + 1;
    options.scheduler.max_kept_rows = MostKeptRows(kLongest);
    options.blocks.num_blocks = course.num_blocks;
    options.blocks.prefix_caching = false;
    options.max_model_len = kLongest;
    Engine engine(options);
    std::vector<CollectingSink> sinks(cases_.size() * 6);
    RequestId id = 0;
    for (const EncoderGolden& golden : cases_) {
      for (const auto& [pooling, vector] : golden.vectors) {
        const int second = files_.spec().token_types > 1 ? golden.second_text : 0;
        const SamplingSpec sampling{.temperature = 0, .pooling = pooling, .second_text = second};
        CollectingSink& sink = sinks[id++];
        EXPECT_EQ(engine.Submit(test::MakeRequest(id, golden.prompt, 1, sink, 1, sampling)), std::nullopt);
      }
    }
    while (!engine.idle()) {
      const StepPlan* plan = engine.NextPlan(0);
      for (const Chunk& chunk : plan->chunks) EXPECT_EQ(chunk.start, 0);
      num_slices_ += plan->slices.size();
      const auto drawn = group.Run(*plan);
      EXPECT_TRUE(engine.Fits(drawn));
      engine.CommitStep(drawn);
      engine.scheduler().CheckIntegrity();
    }
    std::vector<std::vector<float>> vectors;
    for (size_t i = 0; i < id; ++i) {
      EXPECT_EQ(sinks[i].error, "");
      vectors.push_back(sinks[i].pooled);
    }
    return vectors;
  }

  void ExpectGolden(const std::vector<std::vector<float>>& vectors) const {
    size_t next = 0;
    for (size_t c = 0; c < cases_.size(); ++c) {
      for (const auto& [pooling, right] : cases_[c].vectors) {
        const std::vector<float>& got = vectors[next++];
        ASSERT_EQ(got.size(), right.size()) << "case " << c;
        for (size_t d = 0; d < right.size(); ++d)
          ASSERT_NEAR(got[d], right[d], 1e-4) << "case " << c << ", pooling " << int(pooling) << ", number " << d;
      }
    }
  }

  mutable size_t num_slices_ = 0;  // slices in all plans since the last reset
  ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  std::vector<EncoderGolden> cases_ = ReadCases(GetParam(), files_.spec().pooled_head.mean);
};

TEST_P(EncoderGoldenTest, EmbeddingsEqualTransformers_OnOneToThreeRanks) {
  ExpectGolden(Pool({}));
  ExpectGolden(Pool({.shares = {1, 1}}));
  ExpectGolden(Pool({.shares = {1, 1, 1}}));
}

TEST_P(EncoderGoldenTest, EmbeddingsEqualTransformers_OnTwoStages) {
  ExpectGolden(Pool({.shares = {1, 1}, .stages = {1, static_cast<int32_t>(files_.spec().num_layers()) - 1}}));
}

TEST_P(EncoderGoldenTest, EmbeddingsEqualTransformers_OnUnevenRanks_WithSeveralThreads) {
  ExpectGolden(Pool({.shares = {3, 1}, .threads = 2}));
}

TEST_P(EncoderGoldenTest, Embeddings_AreBitEqual_WhateverTheBatchAndThePool) {
  const auto batches = Pool({.max_step_tokens = 900});
  EXPECT_EQ(Pool({}), batches);
  EXPECT_EQ(Pool({.num_blocks = 15}), batches) << "one long prompt at a time";
}

TEST_P(EncoderGoldenTest, Embeddings_AreBitEqual_WhenPassesAreCutIntoSlices_OnRanksStagesAndThreads) {
  const auto layers = static_cast<int32_t>(files_.spec().num_layers());
  const std::vector<EncoderCourse> courses = {{},
                                              {.shares = {1, 1}},
                                              {.shares = {3, 1}, .threads = 2},
                                              {.shares = {1, 1, 1}},
                                              {.shares = {1, 1}, .stages = {1, layers - 1}}};
  for (EncoderCourse course : courses) {
    const auto whole = Pool(course);
    EXPECT_EQ(num_slices_, 0u) << "all prompts fit a step";
    for (const int tokens : {16, 37}) {
      course.max_step_tokens = tokens;
      EXPECT_EQ(Pool(course), whole) << tokens << " tokens, " << course.shares.size() << " ranks";
      EXPECT_GT(std::exchange(num_slices_, 0), 4u);
    }
  }
}

TEST(Encoders, Prompts_AreRefused_OnlyAboveTheContextLength) {
  EngineOptions options;
  options.scheduler.pass_stages = 3;
  options.scheduler.max_step_tokens = options.scheduler.max_running = 16;
  options.scheduler.max_kept_rows = MostKeptRows(64);
  options.blocks.num_blocks = 100;
  options.max_model_len = 64;
  Engine engine(options);
  CollectingSink sink;
  const SamplingSpec sampling{.pooling = Pooling::kMean};
  EXPECT_EQ(engine.Submit(test::MakeRequest(1, std::vector<TokenId>(64, 3), 1, sink, 1, sampling)), std::nullopt);
  EXPECT_NE(engine.Submit(test::MakeRequest(2, std::vector<TokenId>(65, 3), 1, sink, 1, sampling)), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderGoldenTest,
                         testing::Values("bert", "bert_pairs", "xlmr", "xlmr_pairs", "modernbert", "modernbert_classes",
                                         "electra_pairs", "distilbert", "distilbert_classes", "mpnet", "nomicbert",
                                         "gte", "jinabert", "jinav3", "m3", "bert.gguf", "nomicbert.gguf",
                                         "jinabert.gguf", "jinav3.gguf", "xlmr.gguf"));

}  // namespace
}  // namespace quire
