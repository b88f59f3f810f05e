// Compares log-probabilities of prompts with HF transformers (tests/golden/make_prompt_golden.py). The real scheduler,
// block manager, frames, executors and collectives run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "comm/base/json.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

using test::CollectingSink;

struct PromptGolden {
  std::vector<TokenId> prompt;
  std::vector<float> logprobs, best;  // for every token except the first: its own, and the likeliest token's
};

Json ReadGoldens(const std::string& name) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/" + name + ".json";
  return ParseJson(ReadTextFile(path, 64 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
}

std::vector<PromptGolden> CasesOf(const Json& json) {
  std::vector<PromptGolden> cases;
  for (const Json& c : json) {
    cases.push_back({c.at("prompt").get<std::vector<TokenId>>(), c.at("logprobs").get<std::vector<float>>(),
                     c.at("best").get<std::vector<float>>()});
  }
  return cases;
}

struct PromptSetup {
  int ranks = 1;
  int num_blocks = 600;
  int max_step_tokens = 64;
  int n = 1;
  int max_tokens = 12;
  int num_host_blocks = 0;
  bool twice = false;       // every prompt is sent again after all have ended
  double tolerance = 1e-3;  // tolerance of log-probabilities
  std::vector<int32_t> stages = {};
};

/// Submits all prompts together and scores them. Returns the results by case.
std::vector<CollectingSink> Score(const ModelFiles& files, const std::vector<PromptGolden>& cases,
                                  const PromptSetup& setup, int64_t* preemptions) {
  const int max_model_len = 2200, max_running = 32;
  test::ThreadGroup group(files,
                          {16,
                           setup.max_step_tokens,
                           max_running,
                           max_model_len,
                           1,
                           std::vector<double>(static_cast<size_t>(setup.ranks), 1.0),
                           {},
                           setup.stages},
                          setup.num_blocks, setup.num_host_blocks > 0 ? setup.num_host_blocks + 1 : 0);
  EngineOptions options;
  options.scheduler.max_step_tokens = setup.max_step_tokens;
  options.scheduler.max_running = max_running;
  options.scheduler.preemption = setup.num_host_blocks > 0 ? PreemptionMode::kSwap : PreemptionMode::kRecompute;
  options.scheduler.lookahead_tokens = 0;
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.num_host_blocks = setup.num_host_blocks;
  options.blocks.sliding_window = static_cast<int>(files.spec().window());
  options.max_model_len = max_model_len;
  Engine engine(options);
  std::vector<CollectingSink> sinks(cases.size() * (setup.twice ? 2 : 1));
  for (size_t round = 0; round < sinks.size() / cases.size(); ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const size_t id = round * cases.size() + i;
      const SamplingSpec sampling{.temperature = 0, .num_prompt_logprobs = 2};
      EXPECT_EQ(
          engine.Submit(test::MakeRequest(id + 1, cases[i].prompt, setup.max_tokens, sinks[id], setup.n, sampling)),
          std::nullopt);
    }
    while (!engine.idle()) {
      const StepPlan* plan = engine.NextPlan(0);
      const auto drawn = group.Run(*plan);
      EXPECT_TRUE(engine.Fits(drawn) && engine.Fits(group.scores()));
      engine.CommitStep(drawn, {}, group.scores());
      engine.scheduler().CheckIntegrity();
    }
  }
  if (preemptions != nullptr) *preemptions = engine.scheduler().num_preemptions();
  return sinks;
}

void ExpectPromptGolden(const ModelFiles& files, const std::vector<PromptGolden>& cases, const PromptSetup& setup,
                        int64_t* preemptions = nullptr) {
  const std::vector<CollectingSink> sinks = Score(files, cases, setup, preemptions);
  for (size_t id = 0; id < sinks.size(); ++id) {
    const PromptGolden& golden = cases[id % cases.size()];
    const CollectingSink& sink = sinks[id];
    ASSERT_EQ(sink.prompt_logprobs.size(), golden.logprobs.size()) << "case " << id;
    ASSERT_EQ(sink.prompt_top.size(), 2 * golden.logprobs.size());
    for (size_t i = 0; i < golden.logprobs.size(); ++i) {
      const TokenId token = golden.prompt[i + 1];
      const auto& best = sink.prompt_top[2 * i];
      const auto& second = sink.prompt_top[2 * i + 1];
      ASSERT_NEAR(sink.prompt_logprobs[i], golden.logprobs[i], setup.tolerance) << "case " << id << ", token " << i + 1;
      ASSERT_NEAR(best.second, golden.best[i], setup.tolerance) << "case " << id << ", token " << i + 1;
      ASSERT_GE(best.second, second.second);
      // A log-probability that is reported twice must have the same bits both times.
      const int32_t rank = sink.prompt_ranks[i];
      ASSERT_EQ(rank == 1, best.first == token);
      ASSERT_EQ(rank == 2, second.first == token);
      if (rank > 2) continue;
      ASSERT_EQ(sink.prompt_logprobs[i], rank == 1 ? best.second : second.second);
    }
  }
}

const char* const kModels[] = {"mha",     "gqa",   "mqa",    "swa", "gemma2", "qwen3",
                               "granite", "bloom", "cohere", "phi", "gpt2",   "olmo2"};

class PromptGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  std::vector<PromptGolden> cases_ = CasesOf(ReadGoldens("prompt_tiny").at(GetParam()));
};

TEST_P(PromptGoldenTest, PromptScoresEqualTransformers_OnOneToFourRanks) {
  for (int ranks = 1; ranks <= std::min<int64_t>(4, files_.spec().num_heads); ++ranks)
    ExpectPromptGolden(files_, cases_, {.ranks = ranks});
}

TEST_P(PromptGoldenTest, PromptScoresEqualTransformers_OnTwoStages) {
  ExpectPromptGolden(files_, cases_, {.ranks = 2, .stages = {1, static_cast<int32_t>(files_.spec().num_layers()) - 1}});
}

TEST_P(PromptGoldenTest, PromptScoresEqualTransformers_WithSmallChunksAndThreeChoices) {
  ExpectPromptGolden(files_, cases_, {.ranks = 2, .max_step_tokens = 33, .n = 3});
}

TEST_P(PromptGoldenTest, PromptScoresEqualTransformers_WithManyRowsInOneStep) {
  ExpectPromptGolden(files_, cases_, {.max_step_tokens = 2000});
}

TEST_P(PromptGoldenTest, PromptScoresEqualTransformers_WhenRequestsAreSwappedOrRecomputed) {
  for (const int num_host_blocks : {0, 100}) {
    int64_t preemptions = 0;
    ExpectPromptGolden(files_, cases_, {.num_blocks = 19, .max_tokens = 60, .num_host_blocks = num_host_blocks},
                       &preemptions);
    EXPECT_GT(preemptions, 0);
  }
}

TEST_P(PromptGoldenTest, PromptScoresEqualTransformers_WhenPromptsAreCached) {
  ExpectPromptGolden(files_, cases_, {.twice = true});
}

TEST_P(PromptGoldenTest, PromptScores_AreBitEqual_WhateverTheChunksAndThePool) {
  const auto one = Score(files_, cases_, {}, nullptr);
  const auto other = Score(files_, cases_, {.num_blocks = 25, .max_step_tokens = 37}, nullptr);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].prompt_logprobs, other[i].prompt_logprobs);
    EXPECT_EQ(one[i].prompt_ranks, other[i].prompt_ranks);
    EXPECT_EQ(one[i].prompt_top, other[i].prompt_top);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PromptGoldenTest, testing::ValuesIn(kModels));

TEST(SmolLm2, PromptScores_EqualTransformers) {
  const char* path = std::getenv("QUIRE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "QUIRE_TEST_MODEL is not set";
  const auto cases = CasesOf(ReadGoldens("prompt_smollm2").at("smollm2"));
  const double tolerance = 1e-2;  // the model's weights are quantised, so activations are rounded to 16 bits
  ExpectPromptGolden(ModelFiles::Open(path), cases, {.ranks = 2, .max_step_tokens = 512, .tolerance = tolerance});
}

}  // namespace
}  // namespace quire
