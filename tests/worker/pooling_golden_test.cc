// Compares pooled vectors of prompts with HF transformers (tests/golden/make_pooling_golden.py). The real scheduler,
// block manager, frames, executors and collectives run.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/base/json.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

using test::CollectingSink;

struct PooledGolden {
  std::vector<TokenId> prompt;
  std::vector<float> last, mean, cls;

  const std::vector<float>& Of(Pooling pooling) const {
    return pooling == Pooling::kLast ? last : pooling == Pooling::kMean ? mean : cls;
  }
};

constexpr Pooling kAll[] = {Pooling::kLast, Pooling::kMean, Pooling::kCls};

struct Course {
  int ranks = 1;
  int num_blocks = 400;
  int max_step_tokens = 64;
  int num_host_blocks = 0;
  bool prefix_caching = true;
  bool crowded = false;  // four earlier requests generate long answers meanwhile
  int rounds = 1;        // number of rounds; each sends every prompt once
};

/// The vectors of all rounds, ordered by round, then pooling (kAll), then golden prompt.
struct Pooled {
  std::vector<CollectingSink> sinks;
  int64_t preemptions = 0, swapped_out = 0, cached = 0;

  const std::vector<float>& at(size_t i) const { return sinks[i].pooled; }
};

class PoolingGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  PoolingGoldenTest() {
    const std::string path = std::string(QUIRE_TEST_DATA) + "/pooled_tiny.json";
    const Json json = ParseJson(ReadTextFile(path, 8 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
    for (const Json& c : json.at(GetParam())) {
      const auto vector = [&](const char* name) { return c.at(name).get<std::vector<float>>(); };
      goldens_.push_back({c.at("prompt").get<std::vector<TokenId>>(), vector("last"), vector("mean"), vector("cls")});
    }
  }

  Pooled Pool(const Course& course) const {
    const int max_running = std::min(32, course.max_step_tokens), max_model_len = 400;
    test::ThreadGroup group(files_,
                            {16, course.max_step_tokens, max_running, max_model_len, 1,
                             std::vector<double>(static_cast<size_t>(course.ranks), 1.0)},
                            course.num_blocks, course.num_host_blocks > 0 ? course.num_host_blocks + 1 : 0);
    EngineOptions options;
    options.scheduler.max_step_tokens = course.max_step_tokens;
    options.scheduler.max_running = max_running;
    options.scheduler.preemption = course.num_host_blocks > 0 ? PreemptionMode::kSwap : PreemptionMode::kRecompute;
    options.scheduler.lookahead_tokens = 0;
    options.blocks.num_blocks = course.num_blocks;
    options.blocks.num_host_blocks = course.num_host_blocks;
    options.blocks.prefix_caching = course.prefix_caching;
    options.blocks.sliding_window = static_cast<int>(files_.spec().window());
    options.max_model_len = max_model_len;
    Engine engine(options);
    Pooled pooled;
    pooled.sinks.resize(static_cast<size_t>(course.rounds) * goldens_.size() * std::size(kAll));
    std::vector<CollectingSink> others(course.crowded ? 4 : 0);
    RequestId id = 0;
    const auto submit = [&](const std::vector<TokenId>& prompt, int max_tokens, CollectingSink& sink, Pooling pooling) {
      const SamplingSpec sampling{.temperature = 0, .pooling = pooling};
      EXPECT_EQ(engine.Submit(test::MakeRequest(++id, prompt, max_tokens, sink, 1, sampling)), std::nullopt);
    };
    for (CollectingSink& other : others) submit(goldens_[3].prompt, 120, other, Pooling::kNone);
    size_t next = 0;
    for (int round = 0; round < course.rounds; ++round) {
      for (const Pooling pooling : kAll) {
        for (const PooledGolden& golden : goldens_) submit(golden.prompt, 1, pooled.sinks[next++], pooling);
      }
      while (!engine.idle()) {
        const StepPlan* plan = engine.NextPlan(0);
        const auto drawn = group.Run(*plan);
        EXPECT_TRUE(engine.Fits(drawn));
        engine.CommitStep(drawn);
        engine.scheduler().CheckIntegrity();
      }
    }
    pooled.preemptions = engine.scheduler().num_preemptions();
    pooled.swapped_out = engine.scheduler().num_swapped_out();
    pooled.cached = engine.stats().cached_tokens;
    return pooled;
  }

  /// Expects that all vectors equal those of HF transformers.
  void ExpectGolden(const Pooled& pooled) const {
    for (size_t i = 0; i < pooled.sinks.size(); ++i) {
      const Pooling pooling = kAll[i / goldens_.size() % std::size(kAll)];
      const std::vector<float>& right = goldens_[i % goldens_.size()].Of(pooling);
      ASSERT_EQ(pooled.sinks[i].error, "");
      ASSERT_EQ(pooled.at(i).size(), right.size()) << "request " << i;
      for (size_t d = 0; d < right.size(); ++d)
        ASSERT_NEAR(pooled.at(i)[d], right[d], 1e-3) << "request " << i << ", dimension " << d;
    }
  }

  ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  std::vector<PooledGolden> goldens_;
};

TEST_P(PoolingGoldenTest, EmbeddingsEqualTransformers_OnOneToThreeRanks) {
  for (int ranks = 1; ranks <= std::min<int64_t>(3, files_.spec().num_heads); ++ranks)
    ExpectGolden(Pool({.ranks = ranks}));
}

TEST_P(PoolingGoldenTest, Embeddings_AreBitEqual_WhateverTheChunksBatchAndCache) {
  const Pooled one = Pool({.prefix_caching = false});
  const Pooled chunks = Pool({.max_step_tokens = 33});
  const Pooled whole = Pool({.max_step_tokens = 600, .rounds = 2});
  ExpectGolden(chunks);
  for (size_t i = 0; i < whole.sinks.size(); ++i) {
    EXPECT_EQ(whole.at(i), one.at(i % one.sinks.size()));
    EXPECT_EQ(chunks.at(i % one.sinks.size()), one.at(i % one.sinks.size()));
  }
}

TEST_P(PoolingGoldenTest, Cache_ServesOnlyPoolingOfTheLastToken_WhenPromptsRepeat) {
  const Pooled pooled = Pool({.max_step_tokens = 600, .rounds = 3});
  ExpectGolden(pooled);
  int64_t cacheable = 0;
  for (const PooledGolden& golden : goldens_) cacheable += (static_cast<int64_t>(golden.prompt.size()) - 1) / 16 * 16;
  EXPECT_GE(pooled.cached, 2 * cacheable) << "the second and the third round";
  EXPECT_LE(pooled.cached, 3 * cacheable) << "means and first tokens are computed whole";
}

TEST_P(PoolingGoldenTest, EmbeddingsEqualTransformers_WhenPoolingRequestsAreSwappedOrRecomputed) {
  for (const int num_host_blocks : {0, 60}) {
    const Pooled pooled =
        Pool({.num_blocks = 30, .max_step_tokens = 12, .num_host_blocks = num_host_blocks, .crowded = true});
    ExpectGolden(pooled);
    const bool blocks_leave = files_.spec().window() > 0;  // sliding windows free blocks before preemption is needed
    EXPECT_TRUE(blocks_leave || pooled.preemptions > 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PoolingGoldenTest, testing::Values("qwen3", "linear", "swa", "gemma2", "gpt2", "mqa"));

TEST(ListedTokens, Logprobs_AreReportedForTheListedTokens_InTheirOrder) {
  const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/qwen3");
  for (const int ranks : {1, 3}) {
    test::ThreadGroup group(files, {16, 64, 4, 200, 1, std::vector<double>(static_cast<size_t>(ranks), 1.0)}, 60);
    EngineOptions options;
    options.blocks.num_blocks = 60;
    options.max_model_len = 200;
    Engine engine(options);
    const std::vector<TokenId> prompt = {3, 5, 8, 13}, listed = {100, 2, 77};
    CollectingSink all, some;
    const auto vocab = static_cast<int32_t>(files.spec().vocab_size);
    const SamplingSpec of_all{.temperature = 0, .num_logprobs = vocab};
    const SamplingSpec of_some{.temperature = 0, .num_logprobs = 0, .allowed_tokens = listed, .logprob_tokens = listed};
    ASSERT_EQ(engine.Submit(test::MakeRequest(1, prompt, 1, all, 1, of_all)), std::nullopt);
    ASSERT_EQ(engine.Submit(test::MakeRequest(2, prompt, 1, some, 1, of_some)), std::nullopt);
    while (!engine.idle()) engine.CommitStep(group.Run(*engine.NextPlan(0)));
    const std::map<TokenId, float> right(all.choices[0].top[0].begin(), all.choices[0].top[0].end());
    const auto& got = some.choices[0].top[0];
    ASSERT_EQ(got.size(), listed.size());
    for (size_t i = 0; i < listed.size(); ++i) {
      EXPECT_EQ(got[i].first, listed[i]);
      EXPECT_EQ(got[i].second, right.at(listed[i]));
    }
  }
}

}  // namespace
}  // namespace quire
