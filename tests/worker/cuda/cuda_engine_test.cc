// Tests the CUDA engine without a GPU: the host code runs over an emulated device, and the kernels in the SIMT
// emulator. Its answers are compared with the CPU engine's on the same random models and plans.
#include "worker/cuda/cuda_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "tests/support/random_model.h"
#include "worker/cuda/decoder/cuda_kv_cache.h"
#include "worker/cuda/engine_case.h"
#include "worker/cuda/step/step_builder.h"
#include "worker/cuda/weights/cuda_weights.h"
#include "worker/cuda/weights/device_matrix.h"

namespace quire {
namespace {

using test::Answers;
using test::Ask;
using test::CudaMaker;
using test::ModelShape;
using test::Serve;
using test::SomeAsks;

struct Case {
  const char* name;
  ModelShape shape;
  CudaEngineOptions options;
  test::Setup setup = {};
  double tolerance = 0.05;
  int max_tokens = 4;
};

class CudaEngineTest : public testing::TestWithParam<Case> {};

TEST_P(CudaEngineTest, CudaEngine_GivesTheCpuEnginesTokensPromptLogprobsAndEmbeddings) {
  const Case& c = GetParam();
  const test::RandomModel model(c.shape, 1);
  const ModelFiles files = ModelFiles::Open(model.path());
  auto asks = SomeAsks(files, 2);
  for (Ask& ask : asks) ask.max_tokens = c.max_tokens;
  for (size_t i = 1; i < asks.size(); i += 2) asks[i].sampling.num_prompt_logprobs = 3;
  // This prompt has more rows than one quantised product takes. The request asks for no log-probabilities of the
  // prompt, so the prompt is one chunk.
  if (c.setup.max_step_tokens > 100) asks.push_back(SomeAsks(files, 3, {90}).front());
  asks[0].sampling.pooling = Pooling::kLast;  // the prompt is a single token
  asks[2].sampling.pooling = Pooling::kMean;
  asks[4].sampling.pooling = Pooling::kCls;
  // The CPU engine has no FP8, so answers with weights rounded to FP8 are compared with answers without rounding.
  const Quantization asked = c.options.quantization;
  const Quantization rounded = asked == Quantization::kFp8 ? Quantization::kNone : asked;
  const Answers want = Serve(files, asks, {.ranks = 1, .num_blocks = 200, .quantization = rounded}, MakeCpuEngine);
  CudaMaker maker(c.options);
  const Answers got = Serve(files, asks, c.setup, std::ref(maker));
  EXPECT_EQ(got.preemptions > 0, c.setup.num_blocks < 30);
  EXPECT_EQ(want.overlapped, 0) << "the CPU engine takes one step at a time";
  EXPECT_GT(got.overlapped, 0);
  test::ExpectAlike(got, want, c.tolerance);
  test::ExpectAlikePrompts(got, want, c.tolerance);
  test::ExpectAlikePooled(got, want, c.tolerance);
}

using enum NumberType;

INSTANTIATE_TEST_SUITE_P(
    Models, CudaEngineTest,
    testing::Values(
        Case{"Bf16FusedInGraphs", {}, {.dtype = kBF16}},
        Case{"Bf16PlainWithoutGraphs", {}, {.dtype = kBF16, .graphs = false, .fuse = false}},
        Case{"FourBitsF16InGraphs", {.dtype = "F16", .packed_bits = 4}, {.dtype = kF16}, {}, 0.02},
        Case{"FourBitsBf16WithoutGraphs", {.packed_bits = 4}, {.dtype = kBF16, .graphs = false}, {}, 0.15},
        Case{"FourBitsOnTwoRanks", {.dtype = "F16", .packed_bits = 4}, {.dtype = kF16}, {.ranks = 2}, 0.02},
        Case{"EightBitsF16ChunksBeyondFewRows",
             {.dtype = "F16", .packed_bits = 8},
             {.dtype = kF16},
             {.max_step_tokens = 120},
             0.02},
        Case{"EightBitsOnThreeRanks",
             {.heads = 4, .kv_heads = 2, .dtype = "F16", .packed_bits = 8},
             {.dtype = kF16},
             {.ranks = 3},
             0.02},
        Case{"RoundedTo8BitsOnTwoRanks",
             {.dtype = "F16"},
             {.dtype = kF16, .quantization = Quantization::kInt8},
             {.ranks = 2},
             0.05},
        Case{"RoundedToFp8OnTwoRanks",
             {.dtype = "F16"},
             {.dtype = kF16, .quantization = Quantization::kFp8},
             {.ranks = 2, .max_step_tokens = 120},
             0.2},
        Case{"Fp8OfBlocksOnTwoRanks",
             {.hidden = 256, .heads = 4, .kv_heads = 2, .intermediate = 320, .dtype = "F16", .fp8 = true},
             {.dtype = kF16},
             {.ranks = 2, .max_step_tokens = 120},
             0.03},
        Case{"ExpertsRoundedToFp8",
             {.heads = 4, .kv_heads = 2, .dtype = "F16", .family = "mixtral"},
             {.dtype = kF16, .quantization = Quantization::kFp8},
             {},
             0.2},
        Case{"RoundedTo4Bits", {.dtype = "F32"}, {.dtype = kF16, .quantization = Quantization::kInt4}, {}, 0.05},
        Case{"ExpertsRoundedTo4BitsOnTwoRanks",
             {.heads = 4, .kv_heads = 2, .dtype = "F16", .family = "mixtral"},
             {.dtype = kF16, .quantization = Quantization::kInt4},
             {.ranks = 2},
             0.05},
        Case{"ExpertsOfFourBitsInGraphs",
             {.dtype = "F16", .family = "qwen3_moe", .packed_bits = 4},
             {.dtype = kF16},
             {.max_step_tokens = 120},
             0.03},
        Case{"WholeExpertsOfEightBitsOnThreeRanks",
             {.heads = 4, .kv_heads = 2, .dtype = "F16", .family = "olmoe", .packed_bits = 8},
             {.dtype = kF16},
             {.ranks = 3, .expert_parallel = true},
             0.03},
        Case{"MxFp4ExpertsOnTwoRanks",
             {.heads = 4, .kv_heads = 2, .sliding_window = 24, .dtype = "F16", .family = "gpt_oss", .mxfp4 = true},
             {.dtype = kF16},
             {.ranks = 2},
             0.03},
        Case{"MxFp4ExpertsBf16",
             {.kv_heads = 2, .sliding_window = 24, .family = "gpt_oss", .mxfp4 = true},
             {.dtype = kBF16},
             {},
             0.3},
        Case{"FourBitsF32IsExpanded", {.dtype = "F16", .packed_bits = 4}, {.dtype = kF32}, {}, 0.01},
        Case{"F16TiedBlocksOf8", {.tied = true, .dtype = "F16"}, {.dtype = kF16}, {.block_size = 8}, 0.01},
        Case{"F32FromBf16", {.head_dim = 80}, {.dtype = kF32}, {}, 1e-4},
        Case{"F16FromF32SlidingWindow", {.sliding_window = 24, .dtype = "F32"}, {.dtype = kF16}, {}, 0.01},
        Case{"Fp8Cache", {}, {.dtype = kF16, .fp8_cache = true}, {}, 0.5},
        Case{"Fp8CacheWithFactorsOfTheFile",
             {.hidden = 256, .heads = 4, .kv_heads = 2, .intermediate = 128, .dtype = "F16", .fp8 = true},
             {.dtype = kF16, .fp8_cache = true},
             {.ranks = 2},
             0.5},
        Case{"UnevenHeadsOnTwoRanks", {.heads = 3}, {.dtype = kF16}, {.ranks = 2}, 0.01},
        Case{"ThreeRanksOneWithoutMlp",
             {.heads = 4, .kv_heads = 2, .intermediate = 32, .tied = true},
             {.dtype = kF16},
             {.ranks = 3},
             0.01},
        Case{"Qwen2WithBiases", {.family = "qwen2"}, {.dtype = kBF16}, {}, 0.1},
        Case{"Qwen2F16OnTwoRanks", {.heads = 3, .family = "qwen2"}, {.dtype = kF16}, {.ranks = 2}, 0.01},
        Case{"Qwen3WithNormedHeads", {.tied = true, .dtype = "F16", .family = "qwen3"}, {.dtype = kF16}, {}, 0.01},
        Case{"Qwen3F32OnThreeRanks",
             {.heads = 6, .kv_heads = 2, .dtype = "F32", .family = "qwen3"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"BloomOnTwoRanks",
             {.hidden = 192, .heads = 3, .tied = true, .dtype = "F16", .family = "bloom"},
             {.dtype = kF16},
             {.ranks = 2},
             0.02},
        Case{"BloomF32", {.tied = true, .dtype = "F32", .family = "bloom"}, {.dtype = kF32}, {}, 1e-4},
        Case{"BloomBf16InGraphs", {.tied = true, .family = "bloom"}, {.dtype = kBF16}, {}, 0.15},
        Case{"MptF32OnThreeRanks",
             {.hidden = 384, .heads = 6, .tied = true, .dtype = "F32", .family = "mpt"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"NeoXInParallelF16OnTwoRanks",
             {.hidden = 192, .heads = 3, .dtype = "F16", .family = "gpt_neox"},
             {.dtype = kF16},
             {.ranks = 2},
             0.02},
        Case{"NeoXInParallelF32OneWithoutMlp",
             {.hidden = 192, .heads = 3, .intermediate = 32, .dtype = "F32", .family = "gpt_neox"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"NeoXOneAfterTheOther",
             {.parallel = false, .dtype = "F32", .family = "gpt_neox"},
             {.dtype = kF32},
             {},
             1e-4},
        Case{
            "Gpt2F32OnTwoRanks", {.tied = true, .dtype = "F32", .family = "gpt2"}, {.dtype = kF32}, {.ranks = 2}, 1e-4},
        Case{"Gpt2F16",
             {.intermediate = 100, .tied = true, .dtype = "F16", .family = "gpt2"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"FalconOfOneKeyOnTwoRanks",
             {.hidden = 192, .heads = 3, .tied = true, .dtype = "F32", .family = "falcon"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"FalconOfGroups",
             {.hidden = 256, .heads = 4, .kv_heads = 2, .tied = true, .dtype = "F16", .family = "falcon"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"StarCoder2WithAWindowOnTwoRanks",
             {.hidden = 256, .heads = 4, .kv_heads = 2, .sliding_window = 24, .dtype = "F32", .family = "starcoder2"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"CohereF16",
             {.hidden = 256, .heads = 4, .kv_heads = 2, .tied = true, .dtype = "F16", .family = "cohere"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"Cohere2OnTwoRanks",
             {.hidden = 256,
              .heads = 4,
              .kv_heads = 2,
              .sliding_window = 24,
              .tied = true,
              .dtype = "F32",
              .family = "cohere2"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"StableLmOneAfterTheOther",
             {.kv_heads = 2, .parallel = false, .dtype = "F32", .family = "stablelm"},
             {.dtype = kF32},
             {},
             1e-4},
        Case{"StableLmInParallelOnTwoRanks",
             {.kv_heads = 2, .dtype = "F16", .family = "stablelm"},
             {.dtype = kF16},
             {.ranks = 2},
             0.02},
        Case{"PhiF32OnTwoRanks", {.kv_heads = 2, .dtype = "F32", .family = "phi"}, {.dtype = kF32}, {.ranks = 2}, 1e-4},
        Case{"PhiF16", {.kv_heads = 2, .dtype = "F16", .family = "phi"}, {.dtype = kF16}, {}, 0.02},
        Case{"OptBf16", {.tied = true, .family = "opt"}, {.dtype = kBF16}, {}, 0.15},
        Case{"OptF32OnTwoRanks", {.tied = true, .dtype = "F32", .family = "opt"}, {.dtype = kF32}, {.ranks = 2}, 1e-4},
        Case{"Phi3F16OnTwoRanks", {.heads = 3, .dtype = "F16", .family = "phi3"}, {.dtype = kF16}, {.ranks = 2}, 0.02},
        Case{"Phi3SlidingF32", {.sliding_window = 24, .dtype = "F32", .family = "phi3"}, {.dtype = kF32}, {}, 1e-4},
        Case{"GraniteF32OnTwoRanks", {.dtype = "F32", .family = "granite"}, {.dtype = kF32}, {.ranks = 2}, 1e-4},
        Case{"GraniteBf16InGraphs", {.family = "granite"}, {.dtype = kBF16}, {}, 0.2},
        Case{"SmolLm3WithWindowsF16",
             {.layers = 4, .sliding_window = 24, .tied = true, .dtype = "F16", .family = "smollm3"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"Ministral3F32", {.dtype = "F32", .family = "ministral3"}, {.dtype = kF32}, {}, 1e-4},
        Case{"Olmo2F32OnThreeRanks",
             {.heads = 4, .kv_heads = 2, .dtype = "F32", .family = "olmo2"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"Olmo3F16",
             {.layers = 4, .sliding_window = 24, .dtype = "F16", .family = "olmo3"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"GemmaF32OnTwoRanks",
             {.tied = true, .dtype = "F32", .family = "gemma"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"GemmaBf16InGraphs", {.tied = true, .family = "gemma"}, {.dtype = kBF16}, {}, 0.2},
        Case{"PhiMoeF32OnTwoRanks",
             {.kv_heads = 2, .sliding_window = 24, .dtype = "F32", .family = "phimoe"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"Dots1F32OnTwoRanks",
             {.kv_heads = 2, .sliding_window = 24, .dtype = "F32", .family = "dots1"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"MiniMaxM2F32OnTwoRanks",
             {.heads = 4, .kv_heads = 2, .dtype = "F32", .family = "minimax_m2"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"ErnieF32", {.tied = true, .dtype = "F32", .family = "ernie4_5"}, {.dtype = kF32}, {}, 1e-4},
        Case{"ErnieMoeF32OnTwoRanks",
             {.tied = true, .dtype = "F32", .family = "ernie4_5_moe"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"Gemma2F32OnTwoRanks",
             {.sliding_window = 24, .tied = true, .dtype = "F32", .family = "gemma2"},
             {.dtype = kF32},
             {.ranks = 2},
             2e-4},
        Case{"Gemma2Bf16InGraphs", {.sliding_window = 24, .tied = true, .family = "gemma2"}, {.dtype = kBF16}, {}, 0.2},
        Case{"Gemma3F16OnTwoRanks",
             {.sliding_window = 24, .tied = true, .dtype = "F16", .family = "gemma3_text"},
             {.dtype = kF16},
             {.ranks = 2},
             0.03},
        Case{"Gemma3F32",
             {.sliding_window = 24, .tied = true, .dtype = "F32", .family = "gemma3_text"},
             {.dtype = kF32},
             {},
             2e-4},
        Case{"Gemma4F32OnTwoRanks",
             {.layers = 5, .sliding_window = 24, .tied = true, .dtype = "F32", .family = "gemma4_text"},
             {.dtype = kF32},
             {.ranks = 2},
             3e-4},
        Case{"Gemma4F16",
             {.layers = 4,
              .heads = 4,
              .kv_heads = 2,
              .sliding_window = 24,
              .tied = true,
              .dtype = "F16",
              .family = "gemma4_text"},
             {.dtype = kF16},
             {},
             0.05},
        Case{"Gemma4LargeHeadsBf16InGraphs",
             {.heads = 2, .head_dim = 256, .sliding_window = 24, .tied = true, .family = "gemma4_text"},
             {.dtype = kBF16},
             {},
             0.3},
        Case{"Gemma4LargeHeadsF32WhoseValuesAreKeys",
             {.heads = 2,
              .kv_heads = 2,
              .head_dim = 256,
              .sliding_window = 24,
              .tied = true,
              .dtype = "F32",
              .family = "gemma4_text",
              .shares_kv = false},
             {.dtype = kF32},
             {},
             3e-4},
        Case{"Gemma4F16WhoseValuesAreKeysOnTwoRanks",
             {.layers = 3,
              .heads = 4,
              .kv_heads = 2,
              .sliding_window = 24,
              .tied = true,
              .dtype = "F16",
              .family = "gemma4_text",
              .shares_kv = false},
             {.dtype = kF16},
             {.ranks = 2},
             0.05},
        Case{"Gemma4F32WithExpertsOnTwoRanks",
             {.layers = 3,
              .heads = 4,
              .kv_heads = 2,
              .sliding_window = 24,
              .tied = true,
              .dtype = "F32",
              .family = "gemma4_text",
              .shares_kv = false,
              .experts = true},
             {.dtype = kF32},
             {.ranks = 2},
             3e-4},
        Case{"Gemma4Bf16WithExperts",
             {.sliding_window = 24, .tied = true, .family = "gemma4_text", .shares_kv = false, .experts = true},
             {.dtype = kBF16},
             {},
             0.3},
        Case{"Glm4F32OnTwoRanks", {.heads = 3, .dtype = "F32", .family = "glm4"}, {.dtype = kF32}, {.ranks = 2}, 1e-4},
        Case{"Glm4Bf16", {.family = "glm4"}, {.dtype = kBF16}, {}, 0.2},
        Case{"MixtralF32", {.dtype = "F32", .family = "mixtral"}, {.dtype = kF32}, {}, 1e-4},
        Case{"MixtralF16OnThreeRanksOneWithoutExperts",
             {.heads = 4, .kv_heads = 2, .intermediate = 32, .dtype = "F16", .family = "mixtral"},
             {.dtype = kF16},
             {.ranks = 3},
             0.02},
        Case{"MixtralF16WithWholeExpertsOnThreeRanks",
             {.heads = 4, .kv_heads = 2, .intermediate = 32, .dtype = "F16", .family = "mixtral"},
             {.dtype = kF16},
             {.ranks = 3, .expert_parallel = true},
             0.02},
        Case{"Glm4MoeF32WithWholeExpertsOnTwoRanks",
             {.layers = 3, .heads = 4, .kv_heads = 2, .dtype = "F32", .family = "glm4_moe"},
             {.dtype = kF32},
             {.ranks = 2, .expert_parallel = true},
             1e-4},
        Case{"GptOssF32WithWholeExpertsOnTwoRanks",
             {.heads = 4, .kv_heads = 2, .intermediate = 32, .sliding_window = 24, .dtype = "F32", .family = "gpt_oss"},
             {.dtype = kF32},
             {.ranks = 2, .expert_parallel = true},
             1e-4},
        Case{"Qwen2MoeF32OnTwoRanks",
             {.heads = 3, .intermediate = 45, .dtype = "F32", .family = "qwen2_moe"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"Qwen3MoeF16", {.dtype = "F16", .family = "qwen3_moe"}, {.dtype = kF16}, {}, 0.02},
        Case{"OlmoeF32OnTwoRanks",
             {.heads = 4, .kv_heads = 2, .dtype = "F32", .family = "olmoe"},
             {.dtype = kF32},
             {.ranks = 2},
             1e-4},
        Case{"Glm4MoeF32OnThreeRanks",
             {.layers = 3, .heads = 4, .kv_heads = 2, .dtype = "F32", .family = "glm4_moe"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"GptOssF32OnThreeRanksOneWithoutExperts",
             {.heads = 4, .kv_heads = 2, .intermediate = 32, .sliding_window = 24, .dtype = "F32", .family = "gpt_oss"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"GraniteMoeF32OnTwoRanks", {.dtype = "F32", .family = "granitemoe"}, {.dtype = kF32}, {.ranks = 2}, 1e-4},
        Case{"GptOssF16",
             {.kv_heads = 2, .sliding_window = 24, .dtype = "F16", .family = "gpt_oss"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"Qwen2WithAndWithoutWindows",
             {.layers = 3, .sliding_window = 24, .dtype = "F16", .family = "qwen2"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"PromptsByWarpgroups", {}, {.dtype = kBF16, .attention = AttentionBackend::kWgmma}},
        Case{"V1F32", {.dtype = "F32"}, {.dtype = kF32, .attention = AttentionBackend::kV1}, {}, 1e-4},
        Case{"V1Bf16WithoutGraphs", {}, {.dtype = kBF16, .attention = AttentionBackend::kV1, .graphs = false}},
        Case{"V1Fp8Cache", {}, {.dtype = kF16, .attention = AttentionBackend::kV1, .fp8_cache = true}, {}, 0.5},
        Case{"V1WithSinksAndWindowsOnTwoRanks",
             {.heads = 4, .kv_heads = 2, .sliding_window = 24, .dtype = "F32", .family = "gpt_oss"},
             {.dtype = kF32, .attention = AttentionBackend::kV1},
             {.ranks = 2},
             1e-4},
        Case{"V2WithSlopesOnThreeRanks",
             {.hidden = 384, .heads = 6, .tied = true, .dtype = "F32", .family = "mpt"},
             {.dtype = kF32, .attention = AttentionBackend::kV2},
             {.ranks = 3},
             1e-4},
        Case{"V2WithACap",
             {.sliding_window = 24, .tied = true, .dtype = "F32", .family = "gemma2"},
             {.dtype = kF32, .attention = AttentionBackend::kV2},
             {},
             2e-4},
        Case{"LatentsF32OnThreeRanks",
             {.layers = 3, .heads = 5, .dtype = "F32", .family = "deepseek_v3"},
             {.dtype = kF32},
             {.ranks = 3},
             1e-4},
        Case{"SmallLatentsF16WithoutTensorCores",
             {.heads = 4, .dtype = "F16", .family = "glm4_moe_lite"},
             {.dtype = kF16},
             {.block_size = 8},
             0.1},
        Case{"LatentsF16InGraphs",
             {.heads = 3, .head_dim = 512, .intermediate = 32, .dtype = "F16", .family = "deepseek_v2"},
             {.dtype = kF16},
             {},
             0.02},
        Case{"LatentsBf16OnTwoRanks",
             {.heads = 5, .head_dim = 512, .intermediate = 32, .family = "deepseek_v3"},
             {.dtype = kBF16},
             {.ranks = 2},
             0.3},
        Case{"LatentsFp8CacheOnThreeRanks",
             {.heads = 4, .head_dim = 512, .intermediate = 32, .dtype = "F16", .family = "glm4_moe_lite"},
             {.dtype = kF16, .fp8_cache = true},
             {.ranks = 3},
             0.5},
        Case{"LatentsOfFourBitsF16",
             {.heads = 4, .head_dim = 512, .dtype = "F16", .family = "deepseek_v3", .packed_bits = 4},
             {.dtype = kF16},
             {.max_step_tokens = 120},
             0.03},
        Case{"LatentsFp8OfBlocksOnTwoRanks",
             {.hidden = 256,
              .heads = 4,
              .head_dim = 512,
              .intermediate = 320,
              .dtype = "F16",
              .family = "deepseek_v3",
              .fp8 = true},
             {.dtype = kF16},
             {.ranks = 2},
             0.03},
        Case{"LatentsRoundedTo8BitsOnTwoRanks",
             {.heads = 4, .head_dim = 512, .intermediate = 64, .dtype = "F16", .family = "deepseek_v3"},
             {.dtype = kF16, .quantization = Quantization::kInt8},
             {.ranks = 2},
             0.15},
        Case{"LatentsInASmallPoolRecompute",
             {.heads = 3, .head_dim = 512, .intermediate = 32, .dtype = "F16", .family = "deepseek_v2"},
             {.dtype = kF16},
             {.num_blocks = 10},
             0.02,
             24},
        Case{"LatentsInASmallPoolSwapOnTwoRanks",
             {.heads = 3, .dtype = "F32", .family = "deepseek_v3"},
             {.dtype = kF32},
             {.ranks = 2, .num_blocks = 10, .num_host_blocks = 40, .preemption = PreemptionMode::kSwap},
             1e-4,
             24},
        Case{"SmallPoolRecomputes", {}, {.dtype = kF16}, {.num_blocks = 10}, 0.01, 24},
        Case{"SmallPoolSwapsOnTwoRanks",
             {},
             {.dtype = kF16},
             {.ranks = 2, .num_blocks = 10, .num_host_blocks = 40, .preemption = PreemptionMode::kSwap},
             0.01,
             24}),
    [](const testing::TestParamInfo<Case>& test_case) { return test_case.param.name; });

// The pool holds one prompt at a time, so the second answer to each prompt takes its blocks from the host.
TEST(CudaHostCacheTest, BlocksCopiedToTheHosts_ComeBack_WhenTheirPromptsAreSentAgainOnTwoRanks) {
  const test::RandomModel model({.dtype = "F32"}, 5);
  const ModelFiles files = ModelFiles::Open(model.path());
  std::vector<Ask> asks = SomeAsks(files, 9, {100, 90});
  asks.insert(asks.end(), {asks[0], asks[1]});
  CudaMaker maker({.dtype = kF32});
  const test::Setup setup{.ranks = 2, .num_blocks = 9, .num_host_blocks = 40, .max_running = 1, .step_micros = 100'000};
  const Answers got = Serve(files, asks, setup, std::ref(maker));
  EXPECT_GE(got.from_host, 8);
  ExpectAlike(got, Serve(files, asks, {.ranks = 2}, MakeCpuEngine), 1e-4);
}

// One context is longer than a partition, another is short. The v2 backend splits the long one; v1 splits neither.
TEST(CudaAttentionBackendTest, V1AndV2_EqualTheCpuEngine_WhenAContextSpansSeveralPartitions) {
  const test::RandomModel model(
      {.hidden = 64, .layers = 1, .heads = 2, .kv_heads = 1, .intermediate = 32, .dtype = "F32"}, 5);
  const ModelFiles files = ModelFiles::Open(model.path());
  const std::vector<Ask> asks = SomeAsks(files, 9, {530, 7});
  const test::Setup setup{.max_step_tokens = 128, .max_model_len = 1200};
  const Answers want = Serve(files, asks, setup, MakeCpuEngine);
  for (const AttentionBackend attention : {AttentionBackend::kV1, AttentionBackend::kV2}) {
    CudaMaker maker({.dtype = kF32, .attention = attention});
    test::ExpectAlike(Serve(files, asks, setup, std::ref(maker)), want, 2e-4);
  }
}

TEST(CudaPrefillTest, Prefill_EqualsTheCpuEngine_WhenAChunkBehindALongPrefixIsSplitOverTheDevice) {
  const test::RandomModel model(
      {.hidden = 64, .layers = 1, .heads = 2, .kv_heads = 1, .intermediate = 32, .dtype = "F16"}, 21);
  const ModelFiles files = ModelFiles::Open(model.path());
  std::vector<Ask> asks = SomeAsks(files, 22, {1200, 7});
  asks[0].sampling.num_prompt_logprobs = 0;
  const test::Setup setup{.num_blocks = 100, .max_step_tokens = 64, .max_model_len = 1400};
  // Checks that the engine's plan for the last chunk splits the chunk: the plan has a merge.
  const kernels::PrefillSplit split{2 * Device(0).num_sms(), 1};
  std::vector<kernels::PrefillTile> tiles(static_cast<size_t>(kernels::PrefillTileCapacity(64, 1, 2, 128, split)));
  std::vector<kernels::PrefillMerge> merges(static_cast<size_t>(split.MaxMerges()));
  const std::vector<int32_t> starts{0, 48}, contexts{1200}, heads{0, 2};
  EXPECT_EQ(kernels::PlanPrefill({starts, contexts, heads, 128, 0, split}, tiles, merges).num_merges, 1);
  CudaMaker maker({.dtype = kF16});
  const Answers got = Serve(files, asks, setup, std::ref(maker)), want = Serve(files, asks, setup, MakeCpuEngine);
  test::ExpectAlike(got, want, 0.02);
  test::ExpectAlikePrompts(got, want, 0.004);
}

// The last prompt begins with the whole first prompt. The first prompt's blocks are cached by then. Its last chunk is
// split over the device's multiprocessors.
TEST(CudaLatentsTest, Answers_EqualTheCpuEngine_BehindALongCachedPrefix) {
  const test::RandomModel model({.hidden = 64,
                                 .layers = 1,
                                 .heads = 1,
                                 .head_dim = 512,
                                 .intermediate = 32,
                                 .dtype = "F16",
                                 .family = "deepseek_v2"},
                                21);
  const ModelFiles files = ModelFiles::Open(model.path());
  std::vector<Ask> asks = SomeAsks(files, 22, {1060, 7, 40});
  Ask again = asks[0];
  again.prompt.insert(again.prompt.end(), {5, 6, 7});
  for (int i = 0; i < 12; ++i) asks.push_back({.prompt = {1}, .max_tokens = 1});  // meanwhile the first prompt ends
  asks.push_back(again);
  const test::Setup setup{.num_blocks = 200, .max_step_tokens = 512, .max_model_len = 1400};
  CudaMaker maker({.dtype = kF16});
  const Answers got = Serve(files, asks, setup, std::ref(maker)), want = Serve(files, asks, setup, MakeCpuEngine);
  EXPECT_GT(got.cached_tokens, 0);
  test::ExpectAlike(got, want, 0.02);
}

TEST(CudaLatentsTest, Blocks_HoldLatentsOnce) {
  const test::RandomModel model({.heads = 4, .head_dim = 512, .family = "deepseek_v2"}, 1);
  const ModelFiles files = ModelFiles::Open(model.path());
  for (const bool fp8 : {false, true}) {
    CudaEngineOptions options{.dtype = kBF16};
    options.fp8_cache = fp8;
    const EngineSizes sizes{16, 48, 4, 64, 1, {1.0}};
    const int64_t bytes = files.spec().num_layers() * 16 * 576 * (fp8 ? 1 : 2);
    EXPECT_EQ(MakeCudaEngine(files, sizes, options, 0, nullptr)->block_bytes(), bytes);
    EXPECT_EQ(MemoryOfCudaRank(files, sizes, options, 0).block_bytes, bytes);
  }
}

TEST(CudaAttentionBackendTest, PaddedContext_RoundsUpToAPowerOfTwoOfPartitions) {
  EXPECT_EQ(PaddedContext(1, 4000), 512);
  EXPECT_EQ(PaddedContext(512, 4000), 512);
  EXPECT_EQ(PaddedContext(513, 4000), 1024);
  EXPECT_EQ(PaddedContext(1025, 4000), 2048);
  EXPECT_EQ(PaddedContext(2049, 4000), 4000) << "no more than a context may have";
  EXPECT_EQ(PaddedContext(7, 64), 64);
}

// The fp32 logits of the two engines differ only in the last bits, so the sampled tokens are equal.
class CudaSamplingTest : public testing::TestWithParam<int> {
 protected:
  void ExpectEqualDraws(const std::vector<Ask>& asks, const ModelFiles& files) {
    const Answers want = Serve(files, asks, {.num_blocks = 200, .max_running = 24}, MakeCpuEngine);
    CudaMaker maker({.dtype = kF32});
    test::ExpectEqualTokens(
        Serve(files, asks, {.ranks = GetParam(), .num_blocks = 200, .max_running = 24}, std::ref(maker)), want);
  }

  test::RandomModel model_{ModelShape{.heads = 3, .vocab = 397, .dtype = "F32"}, 5};
  ModelFiles files_ = ModelFiles::Open(model_.path());
};

TEST_P(CudaSamplingTest, Draws_EqualTheCpus_ForEverySamplingSetting) {
  auto asks = SomeAsks(files_, 6);
  asks[0].sampling = {.temperature = 1.0f, .seed = 1, .num_logprobs = 3};
  asks[0].n = 3;
  asks[1].sampling = {.temperature = 0.8f, .top_k = 7, .top_p = 0.9f, .seed = 2};
  asks[2].sampling = {.temperature = 1.3f, .min_p = 0.05f, .repetition_penalty = 1.4f, .seed = 3};
  asks[3].sampling = {.temperature = 0.0f, .frequency_penalty = 1.5f, .presence_penalty = 0.5f, .num_logprobs = 20};
  asks[4].sampling = {.temperature = 0.0f, .logit_bias = {{17, 9.0f}, {5, -100.0f}}};
  asks[5].sampling = {.temperature = 1.0f, .top_p = 0.5f, .seed = 4, .banned_until_min = {0, 3, 9}, .min_tokens = 5};
  // Token 17's logit leads by about eight. A frequency penalty closes that gap, but a presence penalty does not.
  asks.push_back(
      {.prompt = {1}, .sampling = {.temperature = 0, .frequency_penalty = 2, .logit_bias = {{17, 90}, {5, 82}}}});
  asks.push_back(
      {.prompt = {1}, .sampling = {.temperature = 0, .presence_penalty = 2, .logit_bias = {{17, 90}, {5, 82}}}});
  for (Ask& ask : asks) ask.max_tokens = 9;
  ExpectEqualDraws(asks, files_);
}

TEST_P(CudaSamplingTest, Steps_Overlap_WhenTheShardsCandidatesSurelyDecideEveryToken) {
  const auto overlapped = [&](const SamplingSpec& sampling) {
    CudaMaker maker({.dtype = kF32});
    const Ask ask{.prompt = {3, 1, 4}, .max_tokens = 9, .sampling = sampling};
    return Serve(files_, {ask}, {.ranks = GetParam()}, std::ref(maker)).overlapped;
  };
  EXPECT_GT(overlapped({.temperature = 0, .num_logprobs = 20}), 0);
  EXPECT_GT(overlapped({.temperature = 0.9f, .seed = 1}), 0);
  EXPECT_GT(overlapped({.temperature = 0.9f, .top_k = 128, .top_p = 0.9f, .min_p = 0.01f, .seed = 2}), 0);
  const bool alone = GetParam() == 1;
  EXPECT_EQ(overlapped({.temperature = 0.9f, .top_k = 129, .seed = 3}) > 0, alone);
  EXPECT_EQ(overlapped({.temperature = 0.9f, .top_p = 0.9f, .seed = 4}) > 0, alone);
  EXPECT_EQ(overlapped({.temperature = 0.9f, .min_p = 0.1f, .seed = 5}) > 0, alone);
}

TEST_P(CudaSamplingTest, Draws_EqualTheCpus_WhenASettingNeedsTheHost) {
  auto asks = SomeAsks(files_, 7);
  asks[1].sampling = {.temperature = 0.9f, .seed = 8, .num_logprobs = 30};
  asks[3].sampling = {.temperature = 1.0f, .presence_penalty = 0.7f, .seed = 9, .num_logprobs = 25};
  asks[4].sampling = {
      .temperature = 0.5f, .seed = 10, .thoughts = {.tokens = 2, .begun = true, .open = {1}, .close = {3, 5}}};
  ExpectEqualDraws(asks, files_);
}

TEST_P(CudaSamplingTest, Draws_FollowTheGrammar_OfTheirRow) {
  auto asks = SomeAsks(files_, 9);
  asks[0].sampling = {.temperature = 0, .grammar = {GrammarSource::kRegex, "[a-e]*"}};
  asks[2].sampling = {.temperature = 1.5f, .seed = 3, .grammar = {GrammarSource::kRegex, "(ab|cd|xyz){9}"}};
  asks[2].n = 3;
  asks[3].sampling = {.temperature = 0, .num_logprobs = 4, .grammar = {GrammarSource::kRegex, "q+"}};
  for (Ask& ask : asks) ask.max_tokens = 7;
  ExpectEqualDraws(asks, files_);
  const Answers drawn = Serve(files_, asks, {.num_blocks = 200, .max_running = 24}, MakeCpuEngine);
  for (const auto& [index, choice] : drawn.sinks[3].choices) {
    for (const TokenId token : choice.tokens) EXPECT_TRUE(token == 0 || token % 26 == 'q' - 'a') << token;
  }
}

TEST_P(CudaSamplingTest, Beams_EqualTheCpus_ForTwoFourAndTwelveBeams) {
  auto asks = SomeAsks(files_, 8);
  asks.resize(3);
  asks[0].beams = 2;
  asks[1].beams = 4;
  asks[2].beams = 12;  // needs 24 candidates, more than the device reports
  for (Ask& ask : asks) ask.max_tokens = 6;
  ExpectEqualDraws(asks, files_);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaSamplingTest, testing::Values(1, 2, 3));

TEST(CudaKvCacheTest, KvCacheOfALayer_HasTheScalesOfTheFile_OnlyWhenTheCacheIsFp8) {
  const test::RandomModel model({.fp8 = true}, 1);
  const ModelFiles files = ModelFiles::Open(model.path());
  const RankShard shard = PlanShards(files.spec(), {1.0}).front();
  Device device(0);
  const CudaKvCache fp8(files.spec(), shard, {NumberType::kFp8E4M3, 16, files.kv_scales()}, device, 4, 0);
  const CudaKvCache half(files.spec(), shard, {kF16, 16, files.kv_scales()}, device, 4, 0);
  for (const int layer : {0, 1}) {
    EXPECT_EQ(fp8.Layer(layer).k_scale, 0.04f + 0.01f * static_cast<float>(layer));
    EXPECT_EQ(fp8.Layer(layer).v_scale, 0.07f + 0.01f * static_cast<float>(layer));
    EXPECT_EQ(half.Layer(layer).k_scale, 1);
    EXPECT_EQ(half.Layer(layer).v_scale, 1);
  }
}

TEST(CudaEngineMemoryTest, MemoryOfCudaRank_EqualsTheEnginesBytes) {
  const test::ModelShape shapes[] = {{},
                                     {.layers = 5, .sliding_window = 24, .tied = true, .family = "gemma4_text"},
                                     {.packed_bits = 4},
                                     {.packed_bits = 8},
                                     {.heads = 4, .kv_heads = 2, .family = "gpt_oss", .mxfp4 = true},
                                     {.heads = 4, .head_dim = 512, .family = "deepseek_v3", .packed_bits = 4}};
  for (const auto& [shape, fp8] : {std::pair{shapes[0], false},
                                   {shapes[0], true},
                                   {shapes[1], false},
                                   {shapes[2], false},
                                   {shapes[3], false},
                                   {shapes[4], false},
                                   {shapes[5], true}}) {
    const test::RandomModel model(shape, 1);
    const ModelFiles files = ModelFiles::Open(model.path());
    const EngineSizes sizes{16, 48, 4, 64, 1, {1.0}};
    CudaEngineOptions options;
    options.fp8_cache = fp8;
    const auto engine = MakeCudaEngine(files, sizes, options, 0, nullptr);
    const RankMemory memory = MemoryOfCudaRank(files, sizes, options, 0);
    EXPECT_EQ(memory.weight_bytes, engine->weight_bytes());
    EXPECT_EQ(memory.block_bytes, engine->block_bytes());
    EXPECT_GT(memory.weight_bytes, 0);
  }
}

using Form = std::optional<NumberType>;

/// Returns the forms in which rank 0 of `ranks` holds a layer's matrices, for a random model of `shape`. All layers are
/// alike.
LayerForms FormsOfRank0(const ModelShape& shape, size_t ranks, NumberType dtype,
                        Quantization quantization = Quantization::kNone) {
  const test::RandomModel model(shape, 1);
  const ModelFiles files = ModelFiles::Open(model.path());
  const RankShard shard = PlanShards(files.spec(), std::vector<double>(ranks, 1.0)).front();
  return FormsOnDevice(files, shard, dtype, quantization).back();
}

constexpr Role kDenseRoles[] = {Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionOut,
                                Role::kGate,  Role::kUp,  Role::kDown};
constexpr Role kExpertRoles[] = {Role::kExpertGate, Role::kExpertUp, Role::kExpertDown};

LayerForms FormsWith(std::span<const Role> roles, Form form) {
  LayerForms forms;
  for (const Role role : roles) forms.Set(role, form);
  return forms;
}

TEST(QuantizedOnDeviceTest, FormsOnDevice_KeepTheFilesQuantisation_WhereBlocksAreWhole) {
  const Form none, four = NumberType::kQ4_1, eight = NumberType::kQ8_0;
  for (const auto& [bits, form] : {std::pair{4, four}, {8, eight}, {0, none}}) {
    const LayerForms forms = FormsOfRank0({.packed_bits = bits}, 2, kBF16);
    for (const Role role : kDenseRoles) EXPECT_EQ(forms.Of(role), form) << bits;
  }
  EXPECT_EQ(FormsOfRank0({.packed_bits = 4}, 1, kF32).Of(Role::kQuery), none);
  // Two ranks have 80 columns each of the attention output, which cuts a block of 32.
  const LayerForms cut = FormsOfRank0({.head_dim = 80, .packed_bits = 4}, 2, kF16);
  EXPECT_EQ(cut.Of(Role::kAttentionOut), none);
  EXPECT_EQ(cut.Of(Role::kValue), four);
  EXPECT_EQ(cut.Of(Role::kDown), four);
}

TEST(QuantizedOnDeviceTest, FormsOnDevice_KeepFp8_WhereAGroupOfScalesBeginsAtTheRanksFirstColumn) {
  const Form fp8 = NumberType::kFp8Groups;
  const test::RandomModel model({.hidden = 256, .heads = 4, .kv_heads = 2, .intermediate = 320, .fp8 = true}, 1);
  const ModelFiles files = ModelFiles::Open(model.path());
  const std::vector<RankShard> shards = PlanShards(files.spec(), {1.0, 1.0});
  // The second rank has columns 160 to 319 of the MLP, so it begins inside a group of scales.
  for (size_t rank = 0; rank < 2; ++rank) {
    const LayerForms forms = FormsOnDevice(files, shards[rank], kBF16, Quantization::kNone).front();
    for (const Role role : kDenseRoles)
      EXPECT_EQ(forms.Of(role), rank == 1 && role == Role::kDown ? Form() : fp8) << rank;
  }
  const auto rounded = [&](Quantization quantization) {
    return FormsOnDevice(files, shards[1], kBF16, quantization).front().Of(Role::kDown);
  };
  EXPECT_EQ(rounded(Quantization::kInt8), NumberType::kQ8_0);
  EXPECT_EQ(rounded(Quantization::kFp8), Form()) << "what is FP8 is not rounded again";
}

TEST(QuantizedOnDeviceTest, FormsOnDevice_TakeTheRequestedQuantisation_WhereTheFileHasPlainNumbers) {
  const Form four = NumberType::kQ4_1, eight = NumberType::kQ8_0;
  for (const auto& [quantization, form] : {std::pair{Quantization::kInt4, four},
                                           {Quantization::kInt8, eight},
                                           {Quantization::kFp8, Form(NumberType::kFp8E4M3)}}) {
    const LayerForms plain = FormsOfRank0({}, 1, kBF16, quantization);
    for (const Role role : kDenseRoles) EXPECT_EQ(plain.Of(role), form);
    EXPECT_EQ(FormsOfRank0({.packed_bits = 4}, 1, kBF16, quantization).Of(Role::kKey), four)
        << "what is quantised stays so";
    const LayerForms experts = FormsOfRank0({.intermediate = 96, .family = "qwen2_moe"}, 1, kBF16, quantization);
    for (const Role role : {Role::kExpertGate, Role::kExpertUp, Role::kExpertDown, Role::kSharedGate, Role::kSharedUp})
      EXPECT_EQ(experts.Of(role), form);
    EXPECT_EQ(experts.Of(Role::kSharedDown), Form()) << "40 columns are no whole blocks";
  }
}

TEST(QuantizedOnDeviceTest, NotesOnExpanded_CountTheMatricesThatAreExpanded) {
  const auto notes = [](const ModelShape& shape, NumberType dtype) {
    const test::RandomModel model(shape, 1);
    const ModelFiles files = ModelFiles::Open(model.path());
    const RankShard shard = PlanShards(files.spec(), {1.0}).front();
    return NotesOnExpanded(files, shard, FormsOnDevice(files, shard, dtype, Quantization::kNone));
  };
  EXPECT_THAT(notes({.packed_bits = 4}, kBF16), testing::IsEmpty());
  EXPECT_THAT(notes({}, kF32), testing::IsEmpty()) << "plain numbers are not expanded";
  EXPECT_THAT(notes({.packed_bits = 4}, kF32), testing::ElementsAre(testing::StartsWith("14 matrices of ")));
  // The model has 2 layers with 6 experts of 3 matrices each.
  EXPECT_THAT(notes({.kv_heads = 2, .family = "gpt_oss", .mxfp4 = true}, kF32),
              testing::ElementsAre(testing::StartsWith("36 matrices of ")));
}

TEST(QuantizedOnDeviceTest, FormsOnDevice_KeepMxFp4ForExperts) {
  const LayerForms forms = FormsOfRank0({.kv_heads = 2, .family = "gpt_oss", .mxfp4 = true}, 1, kBF16);
  for (const Role role : kExpertRoles) EXPECT_EQ(forms.Of(role), NumberType::kMxFp4);
  EXPECT_EQ(forms.Of(Role::kQuery), Form());
}

TEST(QuantizedOnDeviceTest, WeightsTake69GB_For117BillionNumbersWithExpertsInMxFp4) {
  const char* config = R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "vocab_size": 201088,
      "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
      "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 131072, "hidden_act": "silu", "eos_token_id": 0, "rope_theta": 150000,
      "rope_parameters": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
      "quantization_config": {"quant_method": "mxfp4"}})";
  const ModelSpec spec = SpecFromHf(config, "", "made up");
  const RankShard shard = PlanShards(spec, {1.0}).front();
  const std::vector<LayerForms> forms(36, FormsWith(kExpertRoles, NumberType::kMxFp4));
  // The experts have 114.7 billion numbers of 4.5 bits, and the other matrices have 2.1 billion of 16 bits.
  EXPECT_NEAR(static_cast<double>(CudaWeights::Bytes(spec, shard, kBF16, forms)), 68.8e9, 0.5e9);
}

TEST(QuantizedOnDeviceTest, WeightsTake47GB_For70BillionNumbersAsQ4_1) {
  const char* config = R"({"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "vocab_size": 128256,
      "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 28672,
      "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "hidden_act": "silu", "eos_token_id": 0})";
  const ModelSpec spec = SpecFromHf(config, "", "made up");
  const RankShard shard = PlanShards(spec, {1.0}).front();
  const auto bytes = [&](Form form) {
    return CudaWeights::Bytes(spec, shard, kBF16, std::vector<LayerForms>(80, FormsWith(kDenseRoles, form)));
  };
  EXPECT_GT(bytes({}), 140'000'000'000);
  // The layers have 68.5 billion numbers of 5 bits; embedding and head have 2.1 billion of 16 bits.
  EXPECT_NEAR(static_cast<double>(bytes(NumberType::kQ4_1)), 47.0e9, 0.1e9);
  EXPECT_LT(bytes(NumberType::kQ8_0), 80'000'000'000);
}

}  // namespace
}  // namespace quire
