// Compares LoRA adapters of embeddings, heads, routers, experts, layers with a recurrent state and layer inputs with
// PEFT (FORMATS of tests/golden/make_adapter_golden.py). Also compares the same adapters in llama.cpp's format
// (tests/golden/make_gguf_adapters.py).
#include <gtest/gtest.h>

#include "tests/support/serve_adapted.h"

namespace quire {
namespace {

using test::AdaptedCase;
using test::AdaptedModel;
using test::ChoiceOfCase;
using test::ExpectAdapted;
using test::ExpectSameBits;
using test::ServeAdapted;

const std::string kData = QUIRE_TEST_DATA;

/// The parameter is the name of a base model.
class AdapterFormatsTest : public testing::TestWithParam<std::string> {
 protected:
  AdaptedModel model_ = test::OpenAdapted(GetParam(), "adapter_formats");
};

TEST_P(AdapterFormatsTest, TokensEqualPeft_OnOneToThreeRanks_InBatchesMixedWithTheBase) {
  ASSERT_GT(model_.cases.size(), 8u);
  for (const std::vector<double>& shares : {std::vector<double>{1}, {3, 1}, {1, 2, 1}}) {
    if (std::ssize(shares) > model_.files.spec().num_heads) continue;
    ExpectAdapted(model_.cases, ServeAdapted(model_.files, model_.cases, {.shares = shares}));
  }
}

TEST_P(AdapterFormatsTest, AnswersHaveTheSameBits_AloneAndBesideAnyOtherRequests) {
  const ChoiceOfCase alone = ServeAdapted(model_.files, model_.cases, {.one_at_a_time = true});
  ExpectSameBits(ServeAdapted(model_.files, model_.cases, {.threads = 2, .max_step_tokens = 300}), alone);
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterFormatsTest,
                         testing::Values("gqa", "linear", "qwen3moe", "mixtral", "gptoss", "qwen35", "qwen35moe",
                                         "lfm2moe", "nemotronhmoe", "granitehybridmoe", "bamba", "falconh1", "gemma4",
                                         "gemma4moe", "phimoe", "erniemoe"),
                         [](const testing::TestParamInfo<std::string>& base) { return base.param; });

TEST(AdapterStagesTest, TablesOfEmbeddingAndHead_GiveTheBitsOfOneStage_OnTwoStages) {
  const AdaptedModel model = test::OpenAdapted("gqa", "adapter_formats");
  const ChoiceOfCase right = ServeAdapted(model.files, model.cases, {});
  ExpectSameBits(ServeAdapted(model.files, model.cases, {.stages = {1, 2}}), right);
}

TEST(AdapterExpertsTest, WholeExpertsOnRanks_GiveTheAnswersOfSplitExperts) {
  const AdaptedModel model = test::OpenAdapted("qwen35moe", "adapter_formats");
  ExpectAdapted(model.cases, ServeAdapted(model.files, model.cases, {.shares = {1, 1}, .expert_parallel = true}));
}

/// A base model and an adapter of it. Both are in safetensors or in GGUF.
struct TwinCase {
  const char *base, *adapter, *name, *golden;
};

class GgufAdapterTest : public testing::TestWithParam<TwinCase> {};

TEST_P(GgufAdapterTest, TokensEqualPeft_WhateverFileFormatTheBaseModelAndTheAdapterHave) {
  const auto& [base, adapter, name, golden] = GetParam();
  const Json json = test::ReadAdaptedGolden(golden);
  const std::vector<AdaptedCase> cases = test::CasesOf(json.at(name), 1);
  const ModelFiles files =
      ModelFiles::Open(kData + "/models/" + base, LoadFormat::kAuto, {kData + "/adapters/" + adapter});
  for (const std::vector<double>& shares : {std::vector<double>{1}, {3, 1}})
    ExpectAdapted(cases, ServeAdapted(files, cases, {.shares = shares}));
}

constexpr const char *kOthers = "adapters", *kFormats = "adapter_formats";
INSTANTIATE_TEST_SUITE_P(Twins, GgufAdapterTest,
                         testing::Values(TwinCase{"linear.gguf", "linear_all.gguf", "linear_all", kFormats},
                                         TwinCase{"linear.gguf", "linear_all", "linear_all", kFormats},
                                         TwinCase{"linear", "linear_all.gguf", "linear_all", kFormats},
                                         TwinCase{"phi3.gguf", "phi3_fused.gguf", "phi3_fused", kOthers},
                                         TwinCase{"phi3.gguf", "phi3_fused", "phi3_fused", kOthers},
                                         TwinCase{"phi3", "phi3_fused.gguf", "phi3_fused", kOthers},
                                         TwinCase{"qwen3moe.gguf", "qwen3moe_experts.gguf", "qwen3moe_experts",
                                                  kFormats},
                                         TwinCase{"qwen3moe.gguf", "qwen3moe_experts", "qwen3moe_experts", kFormats},
                                         TwinCase{"qwen3moe", "qwen3moe_experts.gguf", "qwen3moe_experts", kFormats},
                                         TwinCase{"gemma2.gguf", "gemma2_norms.gguf", "gemma2_norms", kOthers},
                                         TwinCase{"gemma2.gguf", "gemma2_norms", "gemma2_norms", kOthers},
                                         TwinCase{"cohere.gguf", "cohere_interleaved", "cohere_interleaved", kOthers},
                                         TwinCase{"mixtral.gguf", "mixtral_all", "mixtral_all", kFormats}));

}  // namespace
}  // namespace quire
