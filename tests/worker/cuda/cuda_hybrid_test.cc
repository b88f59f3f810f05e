// Tests models with recurrent states on the CUDA engine, over an emulated device. Answers equal the CPU engine's,
// however states are copied, swapped or recomputed.
#include <gtest/gtest.h>

#include "tests/support/random_model.h"
#include "worker/cuda/engine_case.h"

namespace quire {
namespace {

using test::Answers;
using test::Ask;
using test::CudaMaker;
using test::ModelShape;
using test::Serve;

struct HybridCase {
  const char* name;
  ModelShape shape;
  CudaEngineOptions options;
  int ranks = 1;
  double tolerance = 1e-4;
};

class CudaHybridTest : public testing::TestWithParam<HybridCase> {
 protected:
  /// Serves the requests on both engines, expects equal answers, and returns those of the CUDA engine.
  Answers ExpectLikeTheCpu(const std::vector<Ask>& asks, test::Setup setup, double part = 0.75) {
    const Answers want = Serve(files_, asks, {.num_blocks = 400, .max_running = setup.max_running}, MakeCpuEngine);
    CudaMaker maker(GetParam().options);
    setup.ranks = GetParam().ranks;
    Answers got = Serve(files_, asks, setup, std::ref(maker));
    test::ExpectAlike(got, want, GetParam().tolerance, part);
    return got;
  }
  /// Returns the number of KV blocks that a sequence's state takes on the rank that needs most.
  int StateBlocks() const {
    const CudaEngineOptions& options = GetParam().options;
    int64_t of_state = 0;
    for (int rank = 0; rank < GetParam().ranks; ++rank) {
      const EngineSizes sizes{16, 48, 5, 400, 1, std::vector<double>(static_cast<size_t>(GetParam().ranks), 1.0)};
      const RankMemory memory = MemoryOfCudaRank(files_, sizes, options, rank);
      of_state = std::max(of_state, (memory.state_bytes + memory.block_bytes - 1) / memory.block_bytes);
    }
    EXPECT_GT(of_state, 0);
    return static_cast<int>(of_state);
  }

  test::RandomModel model_{GetParam().shape, 1};
  ModelFiles files_ = ModelFiles::Open(model_.path());
};

TEST_P(CudaHybridTest, Serve_EqualsTheCpuEngine_WhenPromptChunksRunBesideDecodes) {
  std::vector<Ask> asks = test::SomeAsks(files_, 2, {1, 37, 16, 70});
  for (Ask& ask : asks) ask.max_tokens = 7;
  const Answers got = ExpectLikeTheCpu(asks, {.num_blocks = 400});
  EXPECT_EQ(got.preemptions, 0);
  if (GetParam().ranks == 1) {
    EXPECT_GT(got.overlapped, 0);
  }
}

TEST_P(CudaHybridTest, Serve_EqualsTheCpuEngine_WhenSequencesWithStatesArePreempted) {
  // Both requests fit at first. Once each has a third block, they no longer fit together.
  std::vector<Ask> asks = test::SomeAsks(files_, 3, {20, 23});
  for (Ask& ask : asks) ask.max_tokens = 16;
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    const int blocks = 1 + 2 * StateBlocks() + 5;
    // Answers are long. With 16-bit numbers the engines' tokens diverge earlier, so fewer of them are compared.
    const double part = GetParam().options.dtype == NumberType::kF32 ? 1 : 0.5;
    const Answers got =
        ExpectLikeTheCpu(asks, {.num_blocks = blocks, .num_host_blocks = 4 * blocks, .preemption = mode}, part);
    EXPECT_GT(got.preemptions, 0);
  }
}

TEST_P(CudaHybridTest, Serve_EqualsTheCpuEngine_WhenChoicesBeamsAndCachedPrefixesCopyStates) {
  std::vector<Ask> asks = test::SomeAsks(files_, 4, {33, 50, 20});
  for (Ask& ask : asks) ask.max_tokens = 6;
  asks[0].n = 3;
  asks[0].sampling = {.temperature = 1.0f, .seed = 1, .num_logprobs = 3};
  asks[2].beams = 3;
  // The first two requests are sent again, after more steps than their own answers take.
  std::vector<Ask> again = {asks[0], asks[1]};
  for (int i = 0; i < 12; ++i) asks.push_back({.prompt = {1}, .max_tokens = 1});
  asks.insert(asks.end(), again.begin(), again.end());
  const Answers got = ExpectLikeTheCpu(asks, {.num_blocks = 1000, .max_running = 12, .state_spacing = 16});
  EXPECT_GE(got.cached_tokens, 32 + 48);
}

using enum NumberType;

INSTANTIATE_TEST_SUITE_P(
    Models, CudaHybridTest,
    testing::Values(
        HybridCase{"Lfm2F32", {.layers = 4, .tied = true, .dtype = "F32", .family = "lfm2"}, {.dtype = kF32}},
        HybridCase{"Lfm2F16InGraphsOnTwoRanks",
                   {.layers = 3, .heads = 3, .tied = true, .dtype = "F16", .family = "lfm2"},
                   {.dtype = kF16},
                   2,
                   0.02},
        HybridCase{"Lfm2Bf16WithAnFp8Cache",
                   {.layers = 3, .tied = true, .family = "lfm2"},
                   {.dtype = kBF16, .fp8_cache = true},
                   1,
                   0.5},
        HybridCase{"Lfm2MoeF32OnThreeRanks",
                   {.layers = 4, .heads = 4, .kv_heads = 2, .tied = true, .dtype = "F32", .family = "lfm2_moe"},
                   {.dtype = kF32},
                   3},
        HybridCase{"Qwen3NextF32OnFourRanksOneWithoutStates",
                   {.layers = 3, .heads = 4, .kv_heads = 2, .dtype = "F32", .family = "qwen3_next"},
                   {.dtype = kF32},
                   4},
        HybridCase{"Qwen35F16InGraphs",
                   {.layers = 3, .tied = true, .dtype = "F16", .family = "qwen3_5_text"},
                   {.dtype = kF16},
                   1,
                   0.1},
        HybridCase{"GraniteHybridF32OnThreeRanks",
                   {.layers = 3, .heads = 4, .kv_heads = 2, .dtype = "F32", .family = "granitemoehybrid"},
                   {.dtype = kF32},
                   3},
        HybridCase{"BambaF16InGraphs", {.layers = 3, .dtype = "F16", .family = "bamba"}, {.dtype = kF16}, 1, 0.05},
        HybridCase{"NemotronHF16WithExpertsOnTwoRanks",
                   {.layers = 5, .dtype = "F16", .family = "nemotron_h", .experts = true},
                   {.dtype = kF16},
                   2,
                   0.05},
        HybridCase{"Lfm3F32OnThreeRanks",
                   {.layers = 5, .heads = 5, .sliding_window = 24, .tied = true, .dtype = "F32", .family = "lfm3"},
                   {.dtype = kF32},
                   3},
        HybridCase{"Lfm3F16InGraphs",
                   {.layers = 4, .heads = 3, .sliding_window = 24, .tied = true, .dtype = "F16", .family = "lfm3"},
                   {.dtype = kF16},
                   1,
                   0.05},
        HybridCase{
            "NemotronHF32OnTwoRanks", {.layers = 5, .dtype = "F32", .family = "nemotron_h"}, {.dtype = kF32}, 2}),
    [](const testing::TestParamInfo<HybridCase>& test_case) { return test_case.param.name; });

TEST(CudaHybridMemoryTest, MemoryOfCudaRank_EqualsTheEnginesBytes_WithStates) {
  for (const char* family : {"lfm2", "qwen3_next", "bamba"}) {
    const test::RandomModel model({.layers = 3, .dtype = "F32", .family = family}, 1);
    const ModelFiles files = ModelFiles::Open(model.path());
    const EngineSizes sizes{16, 48, 4, 64, 1, {1.0}};
    const auto engine = MakeCudaEngine(files, sizes, {.dtype = kF32}, 0, nullptr);
    const RankMemory memory = MemoryOfCudaRank(files, sizes, {.dtype = kF32}, 0);
    EXPECT_EQ(memory.weight_bytes, engine->weight_bytes());
    EXPECT_EQ(memory.block_bytes, engine->block_bytes());
    EXPECT_EQ(memory.state_bytes, engine->state_bytes());
    EXPECT_GT(memory.state_bytes, 0);
  }
}

}  // namespace
}  // namespace quire
