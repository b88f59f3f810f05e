// Compares greedy tokens and log-probabilities of whole models with HF transformers (tests/golden/make_golden.py). The
// real scheduler, block manager, frames, executors and collectives run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "comm/base/json.h"
#include "comm/model/stage_plan.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/random.h"
#include "tests/support/step_ahead.h"
#include "tests/support/thread_group.h"
#include "worker/model/shard.h"

namespace quire {
namespace {

using test::CollectingSink;

struct Golden {
  std::vector<TokenId> prompt, tokens;
  std::vector<float> logprobs;
};

std::vector<Golden> ReadGolden(const std::string& name) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/" + name + ".json";
  const Json json = ParseJson(ReadTextFile(path, 64 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
  std::vector<Golden> cases;
  for (const Json& c : json.at("cases")) {
    cases.push_back({c.at("prompt").get<std::vector<TokenId>>(), c.at("tokens").get<std::vector<TokenId>>(),
                     c.at("logprobs").get<std::vector<float>>()});
  }
  return cases;
}

struct Setup {
  int ranks = 1;   // ranks per stage
  int stages = 1;  // stages of the pipeline
  int threads = 1;
  int num_blocks = 400;
  int max_step_tokens = 64;
  int max_running = 32;
  int block_size = 16;
  double arrivals_per_step = 1e9;  // default: all requests arrive at time 0
  bool one_at_a_time = false;
  bool prefix_caching = true;
  PreemptionMode preemption = PreemptionMode::kRecompute;
  int num_host_blocks = 0;
  int choices = 1;  // choices of each request, all with equal tokens
  bool expert_parallel = false;
  double tolerance = 1e-3;  // tolerance of log-probabilities
};

/// Serves all cases and compares every token and log-probability. If the pointers are not null, stores the number of
/// preemptions, and the log-probabilities of each case's first choice.
void ExpectGolden(const ModelFiles& files, const std::vector<Golden>& cases, const Setup& setup,
                  int64_t* preemptions = nullptr, std::vector<std::vector<float>>* logprobs = nullptr) {
  const int max_model_len = 2200;
  test::ThreadGroup group(files,
                          {setup.block_size,
                           setup.max_step_tokens,
                           setup.max_running,
                           max_model_len,
                           setup.threads,
                           std::vector<double>(static_cast<size_t>(setup.ranks), 1.0),
                           {.expert_parallel = setup.expert_parallel},
                           PlanStages(files, setup.stages)},
                          setup.num_blocks, setup.num_host_blocks > 0 ? setup.num_host_blocks + 1 : 0);
  EngineOptions options;
  options.scheduler.max_step_tokens = setup.max_step_tokens;
  options.scheduler.max_running = setup.max_running;
  options.scheduler.preemption = setup.preemption;
  options.scheduler.num_stages = setup.stages;
  options.scheduler.lookahead_tokens = setup.num_blocks < 200 ? 0 : 16;  // small pools are meant to force preemption
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.num_host_blocks = setup.num_host_blocks;
  options.blocks.block_size = setup.block_size;
  options.blocks.prefix_caching = setup.prefix_caching;
  options.blocks.state_blocks = group.state_blocks();
  options.blocks.sliding_window = static_cast<int>(files.spec().window());
  options.max_model_len = max_model_len;
  Engine engine(options);
  std::vector<CollectingSink> sinks(cases.size());
  test::Random random(11);
  for (size_t next = 0; next < cases.size() || !engine.idle();) {
    double arriving = setup.one_at_a_time ? (engine.idle() ? 1 : 0) : setup.arrivals_per_step;
    for (; next < cases.size() && (arriving >= 1 || random.Below(1000) < arriving * 1000); --arriving, ++next) {
      const auto refused =
          engine.Submit(test::MakeRequest(next + 1, cases[next].prompt, static_cast<int>(cases[next].tokens.size()),
                                          sinks[next], setup.choices, {.temperature = 0, .num_logprobs = 2}));
      ASSERT_FALSE(refused.has_value()) << *refused;
    }
    test::StepAhead(engine, group);
  }
  if (setup.stages > 1 && !setup.one_at_a_time) {
    EXPECT_GT(group.num_overlapped(), 0) << "the stages take turns";
  }
  EXPECT_EQ(engine.blocks().num_free(), engine.blocks().num_usable());
  if (preemptions != nullptr) *preemptions = engine.scheduler().num_preemptions();
  for (size_t i = 0; i < cases.size(); ++i) {
    if (logprobs != nullptr) logprobs->push_back(sinks[i].choices.at(0).logprobs);
    ASSERT_EQ(sinks[i].choices.size(), static_cast<size_t>(setup.choices));
    for (const auto& [index, choice] : sinks[i].choices) {
      EXPECT_EQ(choice.tokens, cases[i].tokens)
          << "case " << i << "." << index << ", prompt of " << cases[i].prompt.size();
      double worst = 0;
      for (size_t t = 0; t < choice.logprobs.size(); ++t)
        worst = std::max(worst, std::abs(double{choice.logprobs[t]} - cases[i].logprobs[t]));
      EXPECT_LE(worst, setup.tolerance) << "case " << i << ": log-probabilities";
      EXPECT_EQ(choice.finished, FinishReason::kLength);
    }
  }
}

/// Returns the tolerance of log-probabilities. The engine rounds activations to 16 bits if weights are quantised. If it
/// also rounds minima to fp16, or expands weights to fp16, the error is larger (docs/limits.md).
double ToleranceOf(const std::string& model) {
  const std::map<std::string, double> others = {
      {"gptq_asym", 0.02},    {"awq", 0.02},        {"gptq_act", 5e-3},    {"packed", 5e-3}, {"int8", 5e-3},
      {"fp8", 5e-3},          {"fp8_tensor", 5e-3}, {"fp8_channel", 5e-3}, {"nvfp4", 5e-3},  {"modelopt", 5e-3},
      {"nvfp4_packed", 5e-3}, {"mxfp8", 5e-3},      {"nf4", 5e-3},         {"fp4", 5e-3},    {"bnb_int8", 5e-3}};
  const auto found = others.find(model);
  return found == others.end() ? 1e-3 : found->second;
}

Setup For(const std::string& model, Setup setup) {
  setup.tolerance = ToleranceOf(model);
  return setup;
}

/// Shapes of pipelines with up to six ranks: the number of ranks per stage, and the number of stages.
constexpr std::pair<int, int> kShapes[] = {{1, 2}, {2, 2}, {1, 3}, {3, 2}, {2, 3}};

/// True when tests try every shape with every model, and every prompt of the quickstart model on every shape. Otherwise
/// each model is tried on one shape, and three setups of the quickstart model share its long prompts.
bool AllShapes() { return std::getenv("QUIRE_TEST_ALL_SHAPES") != nullptr; }

/// Returns the number of stages that the model allows, at most three.
int MostStagesOf(const ModelFiles& files) {
  for (int stages = 3; stages > 1; --stages) {
    try {
      PlanStages(files, stages);
      return stages;
    } catch (const SettingsError&) {
    }
  }
  return 1;
}

/// Serves a few cases on a pipeline shape that follows from the model's name, or on all shapes. In a pool of
/// `num_blocks` blocks requests are preempted, by swapping on some shapes and by recomputing on others. With all
/// shapes, also serves all cases in a large pool.
void ExpectGoldenOnStages(const ModelFiles& files, const std::vector<Golden>& cases, const std::string& model,
                          int num_blocks) {
  const std::vector<Golden> few(cases.begin(), cases.begin() + std::min<std::ptrdiff_t>(6, std::ssize(cases)));
  const size_t turn = std::accumulate(model.begin(), model.end(), size_t{0});
  const int most = MostStagesOf(files);
  for (size_t i = 0; i < (AllShapes() ? std::size(kShapes) : 1); ++i) {
    const auto [ranks, stages] = kShapes[(turn + i) % std::size(kShapes)];
    Setup setup = For(model, {.ranks = static_cast<int>(std::min<int64_t>(ranks, files.spec().num_heads)),
                              .stages = std::min(stages, most),
                              .num_blocks = num_blocks,
                              .arrivals_per_step = 0.5,
                              .preemption = (turn + i) % 2 == 0 ? PreemptionMode::kRecompute : PreemptionMode::kSwap,
                              .num_host_blocks = 60});
    SCOPED_TRACE(testing::Message() << setup.ranks << " ranks in each of " << setup.stages << " stages");
    ExpectGolden(files, few, setup);
    if (!AllShapes()) continue;
    setup.num_blocks = 2000;
    ExpectGolden(files, cases, setup);
  }
}

/// Makes a model's name a valid part of a test's name.
std::string NameOf(std::string model) {
  std::ranges::replace(model, '.', '_');
  return model;
}

/// The parameter is a directory NAME or its GGUF form NAME.gguf, for which the same tokens are expected
/// (tests/golden/make_gguf_twins.py).
class TinyModelTest : public testing::TestWithParam<std::string> {
 protected:
  ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  std::vector<Golden> cases_ = ReadGolden("tiny_" + GetParam().substr(0, GetParam().find('.')));
};

TEST_P(TinyModelTest, TokensEqualTransformers_OnOneRank_OneRequestAtATime) {
  ExpectGolden(files_, cases_, For(GetParam(), {.one_at_a_time = true}));
}

TEST_P(TinyModelTest, TokensEqualTransformers_OnOneToFourRanks_InMixedBatches) {
  for (int ranks = 1; ranks <= std::min<int64_t>(4, files_.spec().num_heads); ++ranks)
    ExpectGolden(files_, cases_, For(GetParam(), {.ranks = ranks, .arrivals_per_step = 0.4}));
}

TEST_P(TinyModelTest, TokensEqualTransformers_OnStages_InMixedBatchesAndPreempted) {
  if (GetParam() == "gemma4whole") {  // later layers read the keys and values of the first layer
    EXPECT_THROW(PlanStages(files_, 2), SettingsError);
    return;
  }
  ExpectGoldenOnStages(files_, cases_, GetParam(), 22);
}

/// Models without mixtures of experts refuse expert parallelism.
TEST_P(TinyModelTest, TokensEqualTransformers_OnTwoAndThreeRanks_WithExpertParallelism) {
  for (int ranks = 2; ranks <= std::min<int64_t>(3, files_.spec().num_heads); ++ranks) {
    const auto setup = For(GetParam(), {.ranks = ranks, .arrivals_per_step = 0.4, .expert_parallel = true});
    if (files_.spec().num_mixture_layers() > 0) {
      ExpectGolden(files_, cases_, setup);
    } else {
      EXPECT_THROW(PlanShards(files_.spec(), {1, 1}, true), Error);
    }
  }
}

TEST_P(TinyModelTest, TokensEqualTransformers_WithTwoThreadsAndBlocksOfFive) {
  ExpectGolden(files_, cases_, For(GetParam(), {.ranks = 2, .threads = 2, .num_blocks = 1000, .block_size = 5}));
}

TEST_P(TinyModelTest, TokensEqualTransformers_WhenTheBlockPoolForcesPreemption) {
  for (const int ranks : {1, 2}) {
    int64_t preemptions = 0;
    ExpectGolden(files_, cases_, For(GetParam(), {.ranks = ranks, .num_blocks = 22, .arrivals_per_step = 0.5}),
                 &preemptions);
    EXPECT_GT(preemptions, 0);
  }
}

TEST_P(TinyModelTest, TokensEqualTransformers_WithOneTokenPerStep) {
  ExpectGolden(files_, {cases_.begin(), cases_.begin() + 6}, For(GetParam(), {.max_step_tokens = 1, .max_running = 1}));
}

INSTANTIATE_TEST_SUITE_P(
    Models, TinyModelTest,
    testing::Values("mha", "gqa", "mqa", "swa", "linear", "linear.gguf", "mqa.gguf", "qwen2", "qwen25", "qwen25.gguf",
                    "qwen3", "qwen3.gguf", "phi3", "phi3long", "granite", "smollm3", "yarn", "ministral", "ministral3",
                    "olmo2", "olmo3", "gemma", "gemma.gguf", "gemma2", "gemma3", "gemma4", "gemma4whole", "gemma4large",
                    "gemma4moe", "gemma4.gguf", "gemma4moe.gguf", "glm4", "glm", "phi3.gguf", "granite.gguf",
                    "smollm3.gguf", "yarn.gguf", "olmo3.gguf", "gemma2.gguf", "gemma3.gguf", "glm4.gguf", "bloom",
                    "mpt", "neox", "neox_serial", "gpt2", "opt", "falcon", "falcon_new", "falcon_serial", "starcoder2",
                    "cohere", "cohere2", "phi", "stablelm", "stablelm_parallel", "bloom.gguf", "mpt.gguf", "neox.gguf",
                    "gpt2.gguf", "falcon_new.gguf", "starcoder2.gguf", "cohere.gguf", "cohere2.gguf", "phi.gguf",
                    "stablelm.gguf", "stablelm_parallel.gguf", "mixtral", "mixtral.stacked", "qwen3moe", "qwen2moe",
                    "qwen2moe_all", "olmoe", "glm4moe", "gptoss", "gptoss.mxfp4", "gptoss.gguf", "granitemoe",
                    "granitemoe.gguf", "glm4moe.gguf", "mixtral.gguf", "qwen3moe.gguf", "qwen2moe_all.gguf",
                    "olmoe.gguf", "phimoe", "dots1", "dots1.gguf", "minimaxm2", "minimaxm2.gguf", "ernie", "ernie.gguf",
                    "deepseekv2", "deepseekv2.gguf", "deepseekv3", "deepseekv3.gguf", "glm4moelite", "glm4moelite.gguf",
                    "erniemoe", "erniemoe.gguf", "gptq", "gptq_act", "gptq_asym", "gptq_v2", "awq", "packed", "int8",
                    "fp8", "fp8_tensor", "fp8_channel", "nvfp4", "modelopt", "nvfp4_packed", "mxfp4_packed", "mxfp8",
                    "nf4", "fp4", "bnb_int8", "seedoss", "seedoss.gguf", "arcee", "arcee.gguf", "exaone4",
                    "exaone4.gguf", "exaone4full", "exaone4full.gguf", "hunyuan", "hunyuan.gguf", "afmoe", "afmoe.gguf",
                    "cwm", "exaonemoe", "hunyuanmoe", "hunyuanmoe.gguf", "hunyuan3", "solaropen", "llama4",
                    "llama4wide", "llama4wide.gguf", "llama4plain", "mimov2", "mimov2.stacked", "mimov2.gguf"),
    [](const testing::TestParamInfo<std::string>& model) { return NameOf(model.param); });

/// Runs models on a pipeline of stages. Each stage has several layers, or one.
class PipelineTest : public TinyModelTest {
 protected:
  int MostStages() const { return MostStagesOf(files_); }
  int heads() const { return static_cast<int>(files_.spec().num_heads); }
};

TEST_P(PipelineTest, TokensEqualTransformers_AndLogprobsHaveTheBitsOfOneStage_InMixedBatches) {
  ASSERT_GT(MostStages(), 1);
  const std::vector<Golden> cases(cases_.begin(), cases_.begin() + std::min<std::ptrdiff_t>(10, std::ssize(cases_)));
  for (int ranks = 1; ranks <= std::min(3, heads()); ++ranks) {
    auto setup = For(GetParam(), {.ranks = ranks, .num_blocks = 1000, .arrivals_per_step = 0.4});
    std::vector<std::vector<float>> whole;
    ExpectGolden(files_, cases, setup, nullptr, &whole);
    for (setup.stages = 2; setup.stages <= (ranks < 3 ? MostStages() : 2); ++setup.stages) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks in each of " << setup.stages << " stages");
      std::vector<std::vector<float>> cut;
      ExpectGolden(files_, cases, setup, nullptr, &cut);
      EXPECT_EQ(cut, whole);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PipelineTest,
                         testing::Values("mha", "gqa", "qwen3", "gemma2", "gemma4", "mixtral", "deepseekv2", "falcon",
                                         "olmo2", "qwen2moe", "lfm2", "qwen3next", "granitehybrid"),
                         [](const testing::TestParamInfo<std::string>& model) { return NameOf(model.param); });

TEST(PipelineGoldenTest, TokensEqualTransformers_OnTwoStages_WhenTheBlockPoolForcesPreemption) {
  for (const std::string name : {"gqa", "gemma2"}) {
    const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
    for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
      int64_t preemptions = 0;
      ExpectGolden(files, ReadGolden("tiny_" + name),
                   {.ranks = 2,
                    .stages = 2,
                    .num_blocks = 22,
                    .arrivals_per_step = 0.5,
                    .preemption = mode,
                    .num_host_blocks = 60},
                   &preemptions);
      EXPECT_GT(preemptions, 0);
    }
  }
}

TEST(PipelineGoldenTest, TokensEqualTransformers_OnTwoStages_WithExpertParallelism) {
  const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/mixtral");
  ExpectGolden(files, ReadGolden("tiny_mixtral"), {.ranks = 2, .stages = 2, .expert_parallel = true});
}

/// Runs models whose layers keep recurrent states. States take blocks of the pool, too.
class TinyHybridTest : public TinyModelTest {};

TEST_P(TinyHybridTest, TokensEqualTransformers_OnOneRank_OneRequestAtATime) {
  ExpectGolden(files_, cases_, {.one_at_a_time = true});
}

TEST_P(TinyHybridTest, TokensEqualTransformers_OnOneToFourRanks_InMixedBatches) {
  for (int ranks = 1; ranks <= std::min<int64_t>(4, files_.spec().num_heads); ++ranks)
    ExpectGolden(files_, cases_, {.ranks = ranks, .num_blocks = 1000, .arrivals_per_step = 0.4});
}

/// Some stages have no layer with attention.
TEST_P(TinyHybridTest, TokensEqualTransformers_OnStages_InMixedBatchesAndPreempted) {
  ExpectGoldenOnStages(files_, cases_, GetParam(), 40);
}

TEST_P(TinyHybridTest, TokensEqualTransformers_WithTwoThreadsAndBlocksOfFive) {
  ExpectGolden(files_, cases_, {.ranks = 2, .threads = 2, .num_blocks = 2000, .block_size = 5});
}

TEST_P(TinyHybridTest, TokensEqualTransformers_WhenTheBlockPoolForcesPreemption) {
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    int64_t preemptions = 0;
    ExpectGolden(files_, cases_,
                 {.ranks = 2, .num_blocks = 40, .arrivals_per_step = 0.5, .preemption = mode, .num_host_blocks = 60},
                 &preemptions);
    EXPECT_GT(preemptions, 0);
  }
}

TEST_P(TinyHybridTest, TokensEqualTransformers_WhenPromptsContinueFromCachedStates) {
  std::vector<Golden> twice = cases_;
  twice.insert(twice.end(), cases_.begin(), cases_.end());
  ExpectGolden(files_, twice, {.num_blocks = 2000, .one_at_a_time = true});
}

TEST_P(TinyHybridTest, TokensEqualTransformers_WhenThreeChoicesShareAState) {
  ExpectGolden(files_, cases_, {.ranks = 2, .num_blocks = 2000, .arrivals_per_step = 0.4, .choices = 3});
}

TEST_P(TinyHybridTest, TokensEqualTransformers_WithOneTokenPerStep) {
  ExpectGolden(files_, {cases_.begin(), cases_.begin() + 6}, {.max_step_tokens = 1, .max_running = 1});
}

INSTANTIATE_TEST_SUITE_P(Models, TinyHybridTest,
                         testing::Values("lfm2", "lfm2moe", "lfm3", "qwen3next", "qwen35", "qwen35moe", "granitehybrid",
                                         "granitehybridmoe", "bamba", "nemotronh", "nemotronhmoe", "falconh1",
                                         "falconh1after", "falconh1before", "falconh1.gguf", "falconh1after.gguf",
                                         "lfm2.gguf", "lfm2moe.gguf", "qwen3next.gguf", "qwen3next.older.gguf",
                                         "qwen35.gguf", "qwen35moe.gguf", "granitehybrid.gguf", "granitehybridmoe.gguf",
                                         "nemotronh.gguf", "nemotronhmoe.gguf"),
                         [](const testing::TestParamInfo<std::string>& model) { return NameOf(model.param); });

TEST(HybridFilesTest, TokensEqualTransformers_WhenTheFilesHoldAVisionModelToo) {
  for (const std::string name : {"qwen35", "qwen35moe"}) {
    const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name + ".vision");
    ExpectGolden(files, ReadGolden("tiny_" + name), {.num_blocks = 1000});
  }
}

// A setup for the quickstart model. Its test runs only if QUIRE_TEST_MODEL=FILE.gguf is set; tests/run fetches the file
// and sets the variable.
struct RealCase {
  const char* name;
  Setup setup;
  bool preempts;
  int turn = -1;  // from 0 to 2: serves every third long prompt; -1: serves all
};

/// Returns all cases with short prompts (at most 400 tokens), and the cases with long prompts number `turn`, `turn` +
/// 3, and so on. Returns all cases if `turn` is -1 or AllShapes() is true. The seven long prompts have nine tenths of
/// all tokens.
std::vector<Golden> CasesOfTurn(const std::vector<Golden>& all, int turn) {
  constexpr size_t kLong = 400;
  std::vector<Golden> cases;
  for (int longer = 0; const Golden& c : all) {
    const bool mine = c.prompt.size() <= kLong || longer++ % 3 == turn;
    if (mine || turn < 0 || AllShapes()) cases.push_back(c);
  }
  return cases;
}

class RealModelTest : public testing::TestWithParam<RealCase> {};

TEST_P(RealModelTest, GreedyTokens_EqualTransformers) {
  const char* path = std::getenv("QUIRE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "QUIRE_TEST_MODEL is not set";
  const auto cases = CasesOfTurn(ReadGolden("smollm2"), GetParam().turn);
  ASSERT_GE(cases.size(), 20u);
  int64_t preemptions = 0;
  auto setup = GetParam().setup;
  setup.tolerance = 5e-3;  // the model's weights are quantised, so activations are rounded to 16 bits
  ExpectGolden(ModelFiles::Open(path), cases, setup, &preemptions);
  EXPECT_EQ(preemptions > 0, GetParam().preempts);
}

INSTANTIATE_TEST_SUITE_P(
    SmolLm2, RealModelTest,
    testing::Values(
        RealCase{"OneRankOneAtATime", {.ranks = 1, .threads = 2, .max_step_tokens = 512, .one_at_a_time = true}, false},
        RealCase{"TwoRanksMixedBatch",
                 {.ranks = 2, .num_blocks = 1200, .max_step_tokens = 512, .arrivals_per_step = 0.3},
                 false,
                 2},
        RealCase{"ThreeRanksSmallPool",
                 {.ranks = 3, .num_blocks = 150, .max_step_tokens = 256, .arrivals_per_step = 0.5},
                 true,
                 0},
        RealCase{"FourRanksMixedBatch", {.ranks = 4, .num_blocks = 1200, .max_step_tokens = 512}, false, 1}),
    [](const testing::TestParamInfo<RealCase>& model) { return model.param.name; });

}  // namespace
}  // namespace quire
