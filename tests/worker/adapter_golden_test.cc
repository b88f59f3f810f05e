// Compares LoRA adapters with PEFT and HF transformers (tests/golden/make_adapter_golden.py): greedy tokens and
// log-probabilities, on several ranks and in batches that mix adapters with the base model. The real scheduler, frames,
// executors and collectives run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "comm/base/json.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/random.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

using test::CollectingSink;

struct AdaptedCase {
  int adapter = 0;  // number of the LoRA adapter (AddedSequence::adapter)
  std::vector<TokenId> prompt, tokens;
  std::vector<float> logprobs;
};

/// A base model with all its adapters, and the golden answers of each adapter and of the base, in turns.
struct AdaptedModel {
  ModelFiles files;
  std::vector<AdaptedCase> cases;
};

std::vector<AdaptedCase> CasesOf(const Json& json, int adapter) {
  std::vector<AdaptedCase> cases;
  for (const Json& c : json.at("cases")) {
    cases.push_back({adapter, c.at("prompt").get<std::vector<TokenId>>(), c.at("tokens").get<std::vector<TokenId>>(),
                     c.at("logprobs").get<std::vector<float>>()});
  }
  return cases;
}

Json ReadAdaptedGolden(const std::string& name) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/" + name + ".json";
  return ParseJson(ReadTextFile(path, 64 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
}

AdaptedModel OpenAdapted(const std::string& base) {
  std::vector<std::string> paths;
  std::vector<AdaptedCase> cases;
  const Json golden = ReadAdaptedGolden("adapters");
  for (const auto& [name, adapter] : golden.items()) {
    if (adapter.at("base") != base) continue;
    paths.push_back(std::string(QUIRE_TEST_DATA) + "/adapters/" + name);
    for (AdaptedCase& c : CasesOf(adapter, static_cast<int>(paths.size()))) cases.push_back(std::move(c));
  }
  const std::vector<AdaptedCase> plain = CasesOf(ReadAdaptedGolden("tiny_" + base), 0);
  cases.insert(cases.end(), plain.begin(), plain.begin() + std::min<std::ptrdiff_t>(8, std::ssize(plain)));
  // A fixed order in which neighbours have different adapters.
  test::Random random(5);
  for (size_t i = cases.size(); i > 1; --i) std::swap(cases[i - 1], cases[static_cast<size_t>(random.Below(i))]);
  return {ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + base, LoadFormat::kAuto, paths),
          std::move(cases)};
}

struct AdaptedSetup {
  std::vector<double> shares = {1};
  int threads = 1;
  int num_blocks = 1000;
  bool one_at_a_time = false;
  int max_step_tokens = 64;
  std::vector<std::string> later = {};  // adapters loaded while serving, numbered from kMostListedAdapters + 1
  std::vector<int32_t> stages = {};
};

using ChoiceOfCase = std::vector<CollectingSink::Choice>;

/// Serves all cases and returns their answers in order.
ChoiceOfCase ServeAdapted(const ModelFiles& files, const std::vector<AdaptedCase>& cases, const AdaptedSetup& setup,
                          int64_t* preemptions = nullptr) {
  test::ThreadGroup group(files, {16, setup.max_step_tokens, 32, 2200, setup.threads, setup.shares, {}, setup.stages},
                          setup.num_blocks);
  for (size_t i = 0; i < setup.later.size(); ++i)
    group.SetAdapter(kMostListedAdapters + 1 + static_cast<int>(i), files, AdapterFiles::Open(setup.later[i], files));
  EngineOptions options;
  options.scheduler.max_step_tokens = setup.max_step_tokens;
  options.scheduler.max_running = 32;
  options.scheduler.lookahead_tokens = setup.num_blocks < 200 ? 0 : 16;
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.state_blocks = group.state_blocks();
  options.blocks.sliding_window = static_cast<int>(files.spec().window());
  options.max_model_len = 2200;
  Engine engine(options);
  for (size_t i = 0; i < setup.later.size(); ++i)
    engine.AdapterCame(kMostListedAdapters + 1 + static_cast<int>(i));
  std::vector<CollectingSink> sinks(cases.size());
  for (size_t next = 0; next < cases.size() || !engine.idle();) {
    while (next < cases.size() && (!setup.one_at_a_time || engine.idle())) {
      auto request = test::MakeRequest(next + 1, cases[next].prompt, static_cast<int>(cases[next].tokens.size()),
                                       sinks[next], 1, {.temperature = 0, .num_logprobs = 2});
      request->adapter = cases[next++].adapter;
      const auto refused = engine.Submit(std::move(request));
      QUIRE_CHECK(!refused, "{}", *refused);
    }
    if (const StepPlan* plan = engine.NextPlan(0)) engine.CommitStep(group.Run(*plan));
  }
  if (preemptions != nullptr) *preemptions = engine.scheduler().num_preemptions();
  ChoiceOfCase answers;
  for (CollectingSink& sink : sinks) answers.push_back(sink.choices[0]);
  return answers;
}

void ExpectAdapted(const std::vector<AdaptedCase>& cases, const ChoiceOfCase& answers) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string what = fmt::format("case {}, adapter {}", i, cases[i].adapter);
    EXPECT_EQ(answers[i].tokens, cases[i].tokens) << what;
    double worst = 0;
    for (size_t t = 0; t < answers[i].logprobs.size(); ++t)
      worst = std::max(worst, std::abs(double{answers[i].logprobs[t]} - cases[i].logprobs[t]));
    EXPECT_LE(worst, 1e-3) << what;
  }
}

void ExpectSameBits(const ChoiceOfCase& got, const ChoiceOfCase& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, want[i].tokens) << i;
    EXPECT_EQ(got[i].logprobs, want[i].logprobs) << i;
  }
}

/// The parameter is the name of a base model.
class AdapterGoldenTest : public testing::TestWithParam<std::string> {
 protected:
  AdaptedModel model_ = OpenAdapted(GetParam());
};

TEST_P(AdapterGoldenTest, TokensEqualPeft_OnOneToThreeRanks_InBatchesMixedWithTheBase) {
  ASSERT_GT(model_.cases.size(), 8u);
  for (const std::vector<double>& shares : {std::vector<double>{1}, {1, 1}, {1, 2, 1}, {3, 1}})
    ExpectAdapted(model_.cases, ServeAdapted(model_.files, model_.cases, {.shares = shares, .threads = 2}));
}

TEST_P(AdapterGoldenTest, TokensEqualPeft_WhenTheBlockPoolForcesPreemption) {
  int64_t preemptions = 0;
  const int blocks = model_.files.spec().num_state_layers() > 0 ? 60 : 22;
  ExpectAdapted(model_.cases,
                ServeAdapted(model_.files, model_.cases, {.shares = {1, 1}, .num_blocks = blocks}, &preemptions));
  EXPECT_GT(preemptions, 0);
}

TEST_P(AdapterGoldenTest, AnswersHaveTheSameBits_AloneAndBesideAnyOtherRequests) {
  const ChoiceOfCase alone = ServeAdapted(model_.files, model_.cases, {.one_at_a_time = true});
  ExpectSameBits(ServeAdapted(model_.files, model_.cases, {.threads = 2}), alone);
  ExpectSameBits(ServeAdapted(model_.files, model_.cases, {.max_step_tokens = 40}), alone);
  ExpectSameBits(ServeAdapted(model_.files, model_.cases, {.max_step_tokens = 300}), alone);
}

TEST_P(AdapterGoldenTest, BaseModelsAnswers_HaveTheSameBits_WithAndWithoutLoadedAdapters) {
  std::vector<AdaptedCase> plain;
  for (const AdaptedCase& c : model_.cases) {
    if (c.adapter == 0) plain.push_back(c);
  }
  const auto without = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  const ChoiceOfCase want = ServeAdapted(without, plain, {});
  const ChoiceOfCase all = ServeAdapted(model_.files, model_.cases, {});
  size_t next = 0;
  for (size_t i = 0; i < model_.cases.size(); ++i) {
    if (model_.cases[i].adapter > 0) continue;
    EXPECT_EQ(all[i].tokens, want[next].tokens);
    EXPECT_EQ(all[i].logprobs, want[next].logprobs);
    ++next;
  }
  EXPECT_EQ(next, want.size());
}

TEST_P(AdapterGoldenTest, AnswersAreBitForBitEqual_WithAdaptersLoadedAtRunTimeAndAtTheStart) {
  const auto base = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  std::vector<std::string> paths;
  for (const AdapterFiles& adapter : model_.files.adapters()) paths.push_back(adapter.path());
  std::vector<AdaptedCase> later = model_.cases;
  for (AdaptedCase& c : later) c.adapter += c.adapter > 0 ? kMostListedAdapters : 0;
  for (const std::vector<double>& shares : {std::vector<double>{1}, {1, 2, 1}})
    ExpectSameBits(ServeAdapted(base, later, {.shares = shares, .later = paths}),
                   ServeAdapted(model_.files, model_.cases, {.shares = shares}));
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterGoldenTest,
                         testing::Values("gqa", "qwen2", "phi3", "gpt2", "neox", "falcon_new", "cohere", "gemma2",
                                         "qwen35", "qwen3moe"),
                         [](const testing::TestParamInfo<std::string>& base) { return base.param; });

TEST(AdapterPipelineTest, AnswersHaveTheBitsOfOneStage_OnTwoAndThreeStages) {
  const AdaptedModel model = OpenAdapted("gqa");
  for (const std::vector<double>& shares : {std::vector<double>{1}, {1, 2}}) {
    const ChoiceOfCase right = ServeAdapted(model.files, model.cases, {.shares = shares});
    for (const std::vector<int32_t>& stages : {std::vector<int32_t>{1, 2}, {1, 1, 1}})
      ExpectSameBits(ServeAdapted(model.files, model.cases, {.shares = shares, .stages = stages}), right);
  }
}

/// Sends one prompt with every adapter in turn, so that only the adapter tells cached prefixes apart.
TEST(AdapterCacheTest, AdaptersAndTheBase_NeverShareCachedBlocks) {
  const AdaptedModel model = OpenAdapted("gqa");
  std::vector<AdaptedCase> cases;
  for (int adapter = 0; adapter <= 3; ++adapter) {
    AdaptedCase c = *std::ranges::max_element(model.cases, {}, [](const AdaptedCase& a) { return a.prompt.size(); });
    c.adapter = adapter;
    cases.push_back(c);
  }
  const ChoiceOfCase in_turn = ServeAdapted(model.files, cases, {.one_at_a_time = true});
  for (size_t i = 0; i < cases.size(); ++i) ExpectSameBits({in_turn[i]}, ServeAdapted(model.files, {cases[i]}, {}));
  EXPECT_NE(in_turn[1].tokens, in_turn[0].tokens);
}

TEST(AdapterMemoryTest, WeightBytes_OfAStageCountItsLayersAlone) {
  const ModelFiles files = OpenAdapted("gqa").files;
  const EngineSizes whole{16, 64, 8, 200, 1, {1}};
  EngineSizes cut = whole;
  cut.stage_layers = {1, 2};
  const RankMemory all = MemoryOfCpuRank(files, whole, 0), last = MemoryOfCpuRank(files, cut, 0),
                   first = MemoryOfCpuRank(files, cut, 1);
  EXPECT_EQ(first.weight_bytes + last.weight_bytes, all.weight_bytes);
  EXPECT_GT(last.weight_bytes, first.weight_bytes) << "two layers and the head";
  EXPECT_EQ(3 * first.block_bytes, all.block_bytes);
  EXPECT_EQ(first.block_bytes + last.block_bytes, all.block_bytes);
}

TEST(AdapterMemoryTest, WeightBytes_CountTheAdaptersOfEveryRank_BeforeAndAfterLoading) {
  const std::string base = std::string(QUIRE_TEST_DATA) + "/models/gqa";
  const ModelFiles plain = ModelFiles::Open(base), adapted = OpenAdapted("gqa").files;
  const EngineSizes sizes{16, 64, 8, 200, 1, {1, 2}};
  auto collectives = MakeThreadCollectives(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    const int64_t planned = MemoryOfCpuRank(adapted, sizes, rank).weight_bytes;
    EXPECT_GT(planned, MemoryOfCpuRank(plain, sizes, rank).weight_bytes);
    EXPECT_EQ(MakeCpuEngine(adapted, sizes, *collectives[static_cast<size_t>(rank)])->weight_bytes(), planned);
  }
}

}  // namespace
}  // namespace quire
