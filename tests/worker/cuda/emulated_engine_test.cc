// Tests of the CUDA engine that run only on the emulated device: they count launches, uploads and measurements, run
// short of memory, or need the models of tests/golden, which are not copied to a GPU machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "comm/base/error.h"
#include "simt/submit.h"
#include "tests/support/random_model.h"
#include "worker/cuda/emulated_gemm.h"
#include "worker/cuda/engine_case.h"
#include "worker/cuda/products_case.h"
#include "worker/cuda/step/step_arrays.h"
#include "worker/cuda/step/step_builder.h"
#include "worker/cuda/weights/cuda_weights.h"
#include "worker/cuda/weights/device_matrix.h"

namespace quire {
namespace {

using test::CudaMaker;
using test::ModelShape;
using test::Serve;

TEST(CudaEngineLaunchesTest, Layer_TakesAtMostSevenKernels_WhenFused) {
  const auto recorded = [](int64_t layers, int length) {
    const test::RandomModel model(ModelShape{.hidden = 64, .layers = layers, .intermediate = 32}, 1);
    const ModelFiles files = ModelFiles::Open(model.path());
    CudaMaker maker({.dtype = NumberType::kBF16});
    const int64_t before = simt::NumRecorded();
    Serve(files, {{.prompt = std::vector<TokenId>(static_cast<size_t>(length), 1), .max_tokens = 3}}, {},
          std::ref(maker));
    return simt::NumRecorded() - before;
  };
  EXPECT_EQ(recorded(3, 5) - recorded(2, 5), 6) << "one graph, of a batch whose contexts are whole";
  EXPECT_LE(recorded(3, 390) - recorded(2, 390), 7) << "one graph, of a batch whose context may be split";
}

TEST(StepBuffersTest, Upload_CopiesOnlyArraysOfTheStep) {
  Device device(0);
  const StepLimits most{.tokens = 2048, .sequences = 64, .decode_words = {5000}, .prefill_tiles = {300}};
  StepBuffers buffers(most, device);
  const StepLimits step{.tokens = 4, .sequences = 4, .decode_words = {100}};
  for (const int round : {0, 1, 2}) {
    buffers.Begin(step);
    const StepArrays &host = buffers.Host(), &there = buffers.OnDevice();
    EXPECT_LT(host.lists_at, 6000) << "of " << buffers.device_bytes();
    host.token_ids[3] = 10 + round;
    host.decode_work[0][99] = 20 + round;
    for (int i : {0, 1}) {
      host.bias_token[i] = 30 + round + i;
      host.bias[i] = 40.0f + static_cast<float>(round);
      host.banned[i] = 50 + round;
    }
    const float before = there.bias[1];
    const int32_t banned_before = there.banned[0];
    buffers.Upload(1, round);
    device.Synchronize();
    EXPECT_EQ(there.token_ids[3], 10 + round);
    EXPECT_EQ(there.decode_work[0][99], 20 + round);
    EXPECT_EQ(there.bias_token[0], 30 + round);
    EXPECT_EQ(there.bias[0], 40.0f + static_cast<float>(round));
    EXPECT_EQ(there.bias[1], before) << "one bias is told";
    EXPECT_EQ(there.banned[0], round == 0 ? banned_before : 50 + round);
  }
}

TEST(StepLimitsTest, LimitsOfStep_CountOnlyTheChunksOrDecodesOfTheStep) {
  StepBuilderSizes sizes;
  sizes.attention = {{.head_start = {0, 2}, .decode_ctas = 6, .tile_rows = 128, .split = {6, 1}}};
  SequenceTable table(4, 2, 16);
  StepPlan prompt;
  prompt.added = {{0, 4, 0, {1, 2, 3, 4}, {1, 2}, {}}};
  prompt.chunks = {{0, 0, 4}};
  const auto chunk = table.Apply(prompt);
  const StepLimits of_chunk = LimitsOfStep(chunk, table, sizes);
  EXPECT_EQ(of_chunk.tokens, 4);
  EXPECT_EQ(of_chunk.sequences, 1);
  EXPECT_EQ(of_chunk.decode_words[0], 0) << "there are no decodes";
  EXPECT_EQ(of_chunk.prefill_tiles[0], kernels::PrefillTileCapacity(4, 1, 2, 128, sizes.attention[0].split));
  EXPECT_EQ(of_chunk.prefill_merges[0], 3);
  table.Resolve(table.Advance(chunk), {{0, 9, 0, {}}});
  StepPlan decode;
  decode.tables = {{0, 2, 5}};
  decode.decodes = {0};
  decode.position_sum = 4;
  const StepLimits of_decode = LimitsOfStep(table.Apply(decode), table, sizes);
  EXPECT_EQ(of_decode.tokens, PaddedRows(1));
  EXPECT_GT(of_decode.decode_words[0], 0);
  EXPECT_EQ(of_decode.prefill_tiles[0], 0) << "there are no chunks";
}

TEST(CudaEngineTuningTest, Engine_TunesEveryBatchSize_BeforeTheFirstRequest) {
  const test::RandomModel model({.hidden = 64, .layers = 1, .heads = 1, .intermediate = 32, .vocab = 40}, 5);
  const ModelFiles files = ModelFiles::Open(model.path());
  const test::EngineMaker make = [](const ModelFiles& of, const EngineSizes& sizes, Collective&) {
    return MakeCudaEngine(of, sizes, {}, 0, nullptr);
  };
  const test::Setup setup = {.max_running = 10};
  test::tuned_rows.clear();
  const auto alone = MakeThreadCollectives(1);
  make(files, {.block_size = 16, .max_step_tokens = 48, .max_running = 10, .max_model_len = 400, .shares = {1}},
       *alone[0])
      ->AllocateBlocks(setup.num_blocks, 0);
  const auto at_start = std::exchange(test::tuned_rows, {});
  EXPECT_EQ(std::set<int64_t>(at_start.begin(), at_start.end()), (std::set<int64_t>{1, 2, 4, 8, 12}));
  // Requests start and end, so there are several steps with different batch sizes.
  const std::vector<test::Ask> asks = {
      {.prompt = {5, 6, 7}, .max_tokens = 12}, {.prompt = {9, 3}, .n = 3}, {.prompt = {4}}};
  const test::Answers answers = test::Serve(files, asks, setup, make);
  EXPECT_EQ(answers.sinks[0].choices.at(0).tokens.size(), 12u);
  EXPECT_EQ(test::tuned_rows, at_start);
}

TEST(QuantizedProductsTest, Fp8Products_RoundTheActivations_OnlyWhenTheLibraryHasFp8Products) {
  test::has_fp8_products = false;
  const test::ManyAndFew expanded(NumberType::kFp8E4M3);
  test::has_fp8_products = true;
  const test::ManyAndFew rounded(NumberType::kFp8E4M3);
  EXPECT_LT(expanded.Difference(), 2e-3 * expanded.Largest());
  EXPECT_GT(rounded.Difference(), 2e-3 * rounded.Largest()) << "x is not rounded";
  EXPECT_LT(rounded.Difference(), 0.03 * rounded.Largest());
}

TEST(QuantizedOnDeviceTest, FormsOnDevice_DifferForQueriesKeysAndValues_WhenTheirTypesInTheFileDiffer) {
  const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/kquants.gguf");
  const auto forms = [&](Quantization quantization) {
    return FormsOnDevice(files, PlanShards(files.spec(), {1.0}).front(), NumberType::kF16, quantization).front();
  };
  const LayerForms own = forms(Quantization::kNone), rounded = forms(Quantization::kInt8);
  EXPECT_EQ(own.Of(Role::kQuery), NumberType::kQ4_1);
  EXPECT_EQ(own.Of(Role::kKey), NumberType::kQ8_0);
  EXPECT_EQ(own.Of(Role::kValue), NumberType::kQ6_K);
  EXPECT_EQ(own.Of(Role::kAttentionOut), NumberType::kQ5_K);
  EXPECT_EQ(own.Of(Role::kGate), std::nullopt) << "its ups are of another form";
  EXPECT_EQ(own.Of(Role::kDown), NumberType::kQ4_1);
  for (const Role role : {Role::kKey, Role::kValue, Role::kAttentionOut})
    EXPECT_EQ(rounded.Of(role), NumberType::kQ8_0);
  for (const int ranks : {1, 2}) {
    const auto asks = test::SomeAsks(files, 3, {1, 37, 90});
    const test::Answers want = Serve(files, asks, {.num_blocks = 200}, MakeCpuEngine);
    CudaMaker maker({.dtype = NumberType::kF16});
    const test::Answers got = Serve(files, asks, {.ranks = ranks, .max_step_tokens = 120}, std::ref(maker));
    test::ExpectAlike(got, want, 0.05);
  }
}

TEST(CudaEngineRefusalTest, Error_NamesTheProblemAndTheRemedy_WhenAModelCannotRun) {
  const auto refusal = [](const ModelShape& shape, int block_size, const CudaEngineOptions& options = {},
                          int max_model_len = 64) -> std::string {
    const test::RandomModel model(shape, 1);
    try {
      MakeCudaEngine(ModelFiles::Open(model.path()), {block_size, 48, 4, max_model_len, 1, {1.0}}, options, 0, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.head_dim = 48}, 16),
              testing::HasSubstr("heads of 64, 80, 96, 128, 256, 512 numbers, the model's have 48"));
  EXPECT_THAT(refusal({.hidden = 60}, 16), testing::HasSubstr("--backend cpu"));
  for (const auto& [hybrid, problem] :
       {std::pair{"deepseekv2", "sizes of latents that are multiples of 8, not 20"},
        {"qwen3next", "128 rows and a multiple of 8 columns, the model's are of 12 and 10"},
        {"lfm2", "channels that are a multiple of 32, the model has 48"},
        {"falconh1", "no layers with attention and a state space side by side"},
        {"llama4", "no attention within chunks of the context"},
        {"mimov2", "no values of another size than keys"}}) {
    const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + hybrid);
    EXPECT_THAT(
        [&] {
          MakeCudaEngine(files, {16, 48, 4, 64, 1, {1.0}}, {}, 0, nullptr);
        },
        testing::ThrowsMessage<Error>(
            testing::AllOf(testing::HasSubstr(problem), testing::HasSubstr("--backend cpu"))));
  }
  EXPECT_THAT(refusal({}, 12), testing::HasSubstr("--block-size"));
  EXPECT_THAT(
      refusal({.head_dim = 640, .family = "deepseek_v2"}, 16),
      testing::HasSubstr("latents of at most 512 numbers, and 640 with what rotates; the model's have 640 and 720"));
  EXPECT_THAT(refusal({.family = "deepseek_v2"}, 16, {.attention = AttentionBackend::kV2}),
              testing::AllOf(testing::HasSubstr("no latent attention"), testing::HasSubstr("leave the flag out")));
  EXPECT_THAT(refusal({}, 16, {.attention = AttentionBackend::kV1}, 60000),
              testing::AllOf(testing::HasSubstr("at most 57"), testing::HasSubstr("--max-model-len"),
                             testing::HasSubstr("give v2")));
  EXPECT_THAT(refusal({.hidden = 256, .layers = 1, .vocab = 50000}, 16), testing::HasSubstr("bytes are missing"));
}

TEST(QuantizedFilesOnDeviceTest, FormsOnDevice_ExpandNvFp4AndBitsAndBytes_UnlessAQuantisationIsRequested) {
  for (const char* name : {"nvfp4", "nf4"}) {
    const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
    const RankShard shard = PlanShards(files.spec(), {1.0}).front();
    const auto query = [&](Quantization quantization) {
      return FormsOnDevice(files, shard, NumberType::kBF16, quantization).front().Of(Role::kQuery);
    };
    EXPECT_EQ(query(Quantization::kNone), std::nullopt) << name;
    EXPECT_EQ(query(Quantization::kFp8), NumberType::kFp8E4M3) << name;
    EXPECT_EQ(query(Quantization::kInt8), NumberType::kQ8_0) << name;
  }
}

}  // namespace
}  // namespace quire
