// Tests weights that are quantised, in the file or while they are loaded: answers and memory. Also tests 8-bit
// activations and quantised KV caches.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/random_model.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

using test::CollectingSink;

/// Returns a model whose matrices have whole blocks of columns on one rank and on two ranks.
const ModelFiles& Model() {
  static const test::RandomModel model({.heads = 4, .kv_heads = 2, .intermediate = 128, .dtype = "F32"}, 3);
  static const ModelFiles files = ModelFiles::Open(model.path());
  return files;
}

EngineSizes Sizes(int ranks, Quantization quantization, ActivationType activations = ActivationType::kInt16) {
  return {.block_size = 16,
          .max_step_tokens = 64,
          .max_running = 8,
          .max_model_len = 512,
          .threads = 1,
          .shares = std::vector<double>(static_cast<size_t>(ranks), 1.0),
          .compute = {.quantization = quantization, .activations = activations}};
}

const std::vector<std::vector<TokenId>> kPrompts = {{5, 6, 7}, {9, 3}, {4, 4, 4, 4, 8, 1}, {11, 2, 9, 2, 9, 30, 31}};

/// Returns greedy continuations of the prompts, with the log-probabilities of the 20 likeliest tokens at each position.
std::vector<CollectingSink::Choice> Serve(const ModelFiles& files, const std::vector<std::vector<TokenId>>& prompts,
                                          const EngineSizes& sizes, int max_tokens) {
  test::ThreadGroup group(files, sizes, 64);
  EngineOptions options;
  options.scheduler.max_step_tokens = 64;
  options.scheduler.max_running = 8;
  options.blocks.num_blocks = 64;
  options.max_model_len = 512;
  Engine engine(options);
  std::vector<CollectingSink> sinks(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const SamplingSpec sampling{.temperature = 0, .num_logprobs = 20};
    EXPECT_FALSE(engine.Submit(test::MakeRequest(i + 1, prompts[i], max_tokens, sinks[i], 1, sampling)));
  }
  while (const StepPlan* plan = engine.NextPlan(0)) engine.CommitStep(group.Run(*plan));
  std::vector<CollectingSink::Choice> choices;
  for (auto& sink : sinks) choices.push_back(sink.choices[0]);
  return choices;
}

std::vector<CollectingSink::Choice> Serve(int ranks, Quantization quantization, int max_tokens) {
  return Serve(Model(), kPrompts, Sizes(ranks, quantization), max_tokens);
}

/// Returns the largest difference of log-probabilities at the first position, among tokens that both report.
double WorstDifference(const std::vector<CollectingSink::Choice>& a, const std::vector<CollectingSink::Choice>& b) {
  double worst = 0;
  int compared = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (const auto& [token, logprob] : a[i].top[0]) {
      for (const auto& [other, other_logprob] : b[i].top[0]) {
        if (token != other) continue;
        worst = std::max(worst, std::abs(double{logprob} - other_logprob));
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 20);
  return worst;
}

TEST(QuantizationTest, Logprobs_StayCloseToFp32_WithInt8AndLessCloseWithInt4) {
  const auto exact = Serve(1, Quantization::kNone, 1);
  const double int8 = WorstDifference(exact, Serve(1, Quantization::kInt8, 1)),
               int4 = WorstDifference(exact, Serve(1, Quantization::kInt4, 1));
  EXPECT_GT(int8, 0) << "nothing was quantised";
  EXPECT_LT(int8, 0.05);
  EXPECT_GT(int4, int8);
  EXPECT_LT(int4, 0.5);
}

TEST(QuantizationTest, Tokens_AreEqualOnOneAndTwoRanks_WithInt8AndInt4) {
  for (const Quantization quantization : {Quantization::kInt8, Quantization::kInt4}) {
    const auto one = Serve(1, quantization, 12), two = Serve(2, quantization, 12);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].tokens, two[i].tokens) << NameOf(quantization);
  }
}

TEST(QuantizationTest, Logprobs_StayCloseToFp32_WithInt8Experts) {
  const test::RandomModel model({.heads = 4, .kv_heads = 2, .intermediate = 128, .dtype = "F32", .family = "qwen2_moe"},
                                3);
  const ModelFiles files = ModelFiles::Open(model.path());
  const auto exact = Serve(files, kPrompts, Sizes(1, Quantization::kNone), 12),
             int8 = Serve(files, kPrompts, Sizes(1, Quantization::kInt8), 12);
  const double worst = WorstDifference(exact, int8);
  EXPECT_GT(worst, 0) << "nothing was quantised";
  EXPECT_LT(worst, 0.1);
  const auto split = Serve(files, kPrompts, Sizes(2, Quantization::kInt8), 12);
  for (size_t i = 0; i < int8.size(); ++i) EXPECT_EQ(int8[i].tokens, split[i].tokens);
}

TEST(QuantizationTest, Int8_TakesAboutHalfOfTheMemory_OfFilesThatTake16Bits) {
  for (const std::string name : {"nvfp4", "nf4", "mxfp8"}) {
    const ModelFiles files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
    const auto wide = Serve(files, kPrompts, Sizes(1, Quantization::kNone), 1),
               packed = Serve(files, kPrompts, Sizes(1, Quantization::kInt8), 1);
    const double worst = WorstDifference(wide, packed);
    EXPECT_GT(worst, 0) << name << ": nothing was packed";
    EXPECT_LT(worst, 0.1) << name;
    const auto bytes_with = [&](Quantization quantization) {
      const auto collectives = MakeThreadCollectives(1);
      return MakeCpuEngine(files, Sizes(1, quantization), *collectives[0])->weight_bytes();
    };
    EXPECT_LT(static_cast<double>(bytes_with(Quantization::kInt8)),
              0.75 * static_cast<double>(bytes_with(Quantization::kNone)))
        << name;
  }
}

TEST(QuantizationTest, Logprobs_StayCloseToFp32_WithInt8LatentAttention) {
  const test::RandomModel model({.heads = 4, .intermediate = 128, .dtype = "F32", .family = "deepseek_v3"}, 3);
  const ModelFiles files = ModelFiles::Open(model.path());
  const auto exact = Serve(files, kPrompts, Sizes(1, Quantization::kNone), 12);
  for (const KvCacheDtype cache : {KvCacheDtype::kFloat32, KvCacheDtype::kInt8}) {
    EngineSizes one = Sizes(1, Quantization::kInt8, ActivationType::kInt8), three = one;
    three.shares = {1, 1, 1};
    one.compute.kv_cache_dtype = three.compute.kv_cache_dtype = cache;
    const auto int8 = Serve(files, kPrompts, one, 12), split = Serve(files, kPrompts, three, 12);
    const double worst = WorstDifference(exact, int8);
    EXPECT_GT(worst, 0) << "nothing was quantised";
    EXPECT_LT(worst, 0.1) << NameOf(cache);
    // Three ranks add in another order than one rank, and then a number may be rounded to a neighbouring INT8 value.
    EXPECT_LT(WorstDifference(int8, split), 0.05) << NameOf(cache);
  }
}

TEST(QuantizationTest, Logprobs_StayCloseToThoseOf16BitActivations_With8BitActivations) {
  const auto int16 = Serve(1, Quantization::kInt4, 1),
             int8 = Serve(Model(), kPrompts, Sizes(1, Quantization::kInt4, ActivationType::kInt8), 1);
  EXPECT_LT(WorstDifference(int16, int8), 0.1);
}

int64_t BlockBytes(const EngineSizes& sizes) {
  const auto collectives = MakeThreadCollectives(1);
  return MakeCpuEngine(Model(), sizes, *collectives[0])->block_bytes();
}

TEST(QuantizationTest, Logprobs_StayCloseToThoseOfFp32_WithASmallerKvCache) {
  struct Way {
    KvCacheDtype dtype;
    double difference;      // largest allowed difference of log-probabilities
    int64_t bytes_of_head;  // bytes of a head and token, against 256 in fp32; int8 adds a scale of 4
  };
  for (const auto& [dtype, difference, bytes_of_head] :
       {Way{KvCacheDtype::kFloat16, 2e-3, 128}, Way{KvCacheDtype::kInt8, 0.05, 68}}) {
    EngineSizes sizes = Sizes(1, Quantization::kNone), two = Sizes(2, Quantization::kNone);
    sizes.compute.kv_cache_dtype = two.compute.kv_cache_dtype = dtype;
    const auto exact = Serve(1, Quantization::kNone, 12), smaller = Serve(Model(), kPrompts, sizes, 12),
               split = Serve(Model(), kPrompts, two, 12);
    const double worst = WorstDifference(exact, smaller);
    EXPECT_GT(worst, 0) << NameOf(dtype) << ": nothing was rounded";
    EXPECT_LT(worst, difference) << NameOf(dtype);
    for (size_t i = 0; i < smaller.size(); ++i) EXPECT_EQ(smaller[i].tokens, split[i].tokens) << NameOf(dtype);
    EXPECT_EQ(BlockBytes(sizes) * 256, BlockBytes(Sizes(1, Quantization::kNone)) * bytes_of_head) << NameOf(dtype);
  }
}

// Compares the quantised formats that only files can have with transformers on the same numbers
// (tests/golden/make_kquant_golden.py). Two ranks cut the columns of o_proj and down_proj inside a block of 256, three
// ranks inside a block of 32.
TEST(QuantizationTest, LogprobsEqualTransformers_ForQuantisedFileFormats_OnOneToFourRanks) {
  const std::string folder = QUIRE_TEST_DATA;
  const ModelFiles files = ModelFiles::Open(folder + "/models/kquants.gguf");
  const Json golden = ParseJson(ReadTextFile(folder + "/kquants.json", 1 << 20), "kquants.json", {.max_depth = 5});
  std::vector<std::vector<TokenId>> prompts;
  for (const Json& c : golden.at("cases")) prompts.push_back(c.at("prompt").get<std::vector<TokenId>>());
  for (const int ranks : {1, 2, 3, 4}) {
    const auto choices = Serve(files, prompts, Sizes(ranks, Quantization::kNone), 1);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto expected = golden.at("cases").at(i).at("logprobs").get<std::vector<float>>();
      ASSERT_EQ(choices[i].top[0].size(), 20u);
      for (const auto& [token, logprob] : choices[i].top[0])
        EXPECT_NEAR(logprob, expected[static_cast<size_t>(token)], 0.03) << ranks << " ranks, prompt " << i;
    }
  }
}

TEST(QuantizationTest, Weights_TakeLessMemory_WithInt8AndInt4) {
  const auto bytes = [](Quantization quantization) {
    const auto collectives = MakeThreadCollectives(1);
    return MakeCpuEngine(Model(), Sizes(1, quantization), *collectives[0])->weight_bytes();
  };
  // Except for the norms, fp32 takes 32 bits for each number, q8_0 takes 8.5 and q4_1 takes 5.
  EXPECT_LT(bytes(Quantization::kInt8), bytes(Quantization::kNone) * 0.3);
  EXPECT_LT(bytes(Quantization::kInt4), bytes(Quantization::kInt8));
}

}  // namespace
}  // namespace quire
