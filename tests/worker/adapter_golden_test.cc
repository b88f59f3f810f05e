// Compares LoRA adapters with PEFT and HF transformers (tests/golden/make_adapter_golden.py): greedy tokens and
// log-probabilities, on several ranks and in batches that mix adapters with the base model. Also tests that answers
// keep their bits beside other requests and on pipelines, that adapters share no cached blocks, and that adapters count
// in the memory of weights. The real scheduler, frames, executors and collectives run.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/serve_adapted.h"

namespace quire {
namespace {

using test::AdaptedCase;
using test::AdaptedModel;
using test::ChoiceOfCase;
using test::ExpectAdapted;
using test::ExpectSameBits;
using test::OpenAdapted;
using test::ServeAdapted;

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

/// Sends one prompt with the base model and with each adapter in turn. So nothing but the adapter tells cached prefixes
/// apart.
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

TEST(AdapterMemoryTest, WeightBytesOfAStage_CountOnlyItsLayers) {
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
