// Compares beam search with HF transformers' generate (tests/golden/make_beam_golden.py). The hypotheses and their
// order are equal. The real scheduler, block manager, frames, executors and collectives run, in pools that are large
// enough and in pools that force preemption.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "comm/base/json.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

struct Hypothesis {
  std::vector<TokenId> tokens;  // includes the stop token
  double score;
};

struct BeamCase {
  std::vector<TokenId> prompt, stop_tokens;
  BeamOptions options;
  int max_tokens;
  std::vector<Hypothesis> expected;
};

EarlyStopping StoppingOf(const Json& json) {
  if (json.is_string()) return EarlyStopping::kNever;
  return json.get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
}

std::vector<BeamCase> ReadCases(const std::string& model) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/beams_" + model + ".json";
  const Json json = ParseJson(ReadTextFile(path, 1 << 20), path, {.max_depth = 8, .max_nodes = 100'000});
  std::vector<BeamCase> cases;
  for (const Json& c : json.at("cases")) {
    const int width = c.at("num_beams").get<int>();
    BeamCase one{c.at("prompt").get<std::vector<TokenId>>(),
                 {},
                 {width, width, c.at("length_penalty").get<float>(), StoppingOf(c.at("early_stopping"))},
                 c.at("max_new_tokens").get<int>(),
                 {}};
    if (!c.at("eos_token_id").is_null()) one.stop_tokens = {c.at("eos_token_id").get<TokenId>()};
    for (const Json& h : c.at("hypotheses"))
      one.expected.push_back({h.at("tokens").get<std::vector<TokenId>>(), h.at("score").get<double>()});
    cases.push_back(std::move(one));
  }
  return cases;
}

struct Room {
  int ranks, num_blocks, num_host_blocks;
  PreemptionMode preemption;
  double tolerance = 1e-3;  // tolerance of scores; relative for scores above 1
};

std::unique_ptr<Request> RequestFor(const BeamCase& c, RequestId id, RequestSink& sink) {
  const bool greedy = c.options.width == 1;  // as in HF, a width of 1 is greedy decoding
  auto request =
      test::MakeRequest(id, c.prompt, c.max_tokens, sink, c.options.width, {.temperature = 0, .num_logprobs = 0});
  request->limits.stop_token_ids = c.stop_tokens;
  if (greedy) return request;
  request->beams = std::make_unique<BeamSearch>(c.options, c.stop_tokens, c.max_tokens);
  request->sampling.num_logprobs = request->beams->num_candidates();
  return request;
}

void Compare(const BeamCase& c, test::CollectingSink& sink, size_t index, double tolerance) {
  ASSERT_EQ(sink.choices.size(), c.expected.size()) << "case " << index;
  for (size_t h = 0; h < c.expected.size(); ++h) {
    const auto& choice = sink.choices[static_cast<int>(h)];
    std::vector<TokenId> expected = c.expected[h].tokens;
    const bool stopped = !c.stop_tokens.empty() && expected.back() == c.stop_tokens[0];
    if (stopped) expected.pop_back();  // the stop token is not delivered
    EXPECT_EQ(choice.tokens, expected) << "case " << index << ", hypothesis " << h;
    EXPECT_EQ(choice.finished, stopped ? FinishReason::kStop : FinishReason::kLength) << "case " << index;
    if (stopped) continue;  // the stop token's part of the score is not delivered, either
    double sum = 0;
    for (const float logprob : choice.logprobs) sum += double{logprob};
    const double score = sum / std::pow(static_cast<double>(expected.size()), double{c.options.length_penalty});
    EXPECT_NEAR(score, c.expected[h].score, tolerance * std::max(1.0, std::abs(score))) << "case " << index;
  }
}

/// Serves all cases together and compares every hypothesis. Returns the number of preemptions.
int64_t ExpectGolden(const ModelFiles& files, const std::vector<BeamCase>& cases, const Room& room) {
  const int max_running = 32, max_step_tokens = 48, max_model_len = 200, block_size = 4;
  test::ThreadGroup group(files,
                          {block_size, max_step_tokens, max_running, max_model_len, 1,
                           std::vector<double>(static_cast<size_t>(room.ranks), 1.0)},
                          room.num_blocks, room.num_host_blocks > 0 ? room.num_host_blocks + 1 : 0);
  EngineOptions options;
  options.scheduler = {max_step_tokens, max_running, room.preemption, 0};
  options.blocks.num_blocks = room.num_blocks;
  options.blocks.num_host_blocks = room.num_host_blocks;
  options.blocks.block_size = block_size;
  options.max_model_len = max_model_len;
  Engine engine(options);
  std::vector<test::CollectingSink> sinks(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto refusal = engine.Submit(RequestFor(cases[i], i + 1, sinks[i]));
    EXPECT_FALSE(refusal) << *refusal;
  }
  while (const StepPlan* plan = engine.NextPlan(0)) {
    engine.scheduler().CheckIntegrity();
    engine.CommitStep(group.Run(*plan));
    engine.scheduler().CheckIntegrity();
  }
  EXPECT_EQ(engine.blocks().num_free(), engine.blocks().num_usable());
  for (size_t i = 0; i < cases.size(); ++i) Compare(cases[i], sinks[i], i, room.tolerance);
  return engine.scheduler().num_preemptions();
}

class BeamGoldenTest : public testing::TestWithParam<std::string> {
 protected:
  int64_t Expect(const Room& room) {
    std::vector<BeamCase> cases = ReadCases(GetParam());
    if (room.num_blocks < 200) std::erase_if(cases, [](const BeamCase& c) { return c.options.width > 3; });
    return ExpectGolden(ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam()), cases, room);
  }
};

TEST_P(BeamGoldenTest, HypothesesEqualTransformers_OnOneRankWithoutPreemption) {
  EXPECT_EQ(Expect({1, 2000, 0, PreemptionMode::kAuto}), 0);
}

TEST_P(BeamGoldenTest, HypothesesEqualTransformers_OnThreeRanks_WhenSequencesAreSwapped) {
  EXPECT_GT(Expect({3, 80, 400, PreemptionMode::kSwap}), 0);
}

TEST_P(BeamGoldenTest, HypothesesEqualTransformers_OnTwoRanks_WhenSequencesAreRecomputed) {
  EXPECT_GT(Expect({2, 80, 0, PreemptionMode::kRecompute}), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, BeamGoldenTest, testing::Values("mha", "gqa", "mqa"),
                         [](const testing::TestParamInfo<std::string>& model) { return model.param; });

// Tests the quickstart model. Runs only if QUIRE_TEST_MODEL=FILE.gguf is set; tests/run fetches the file and sets the
// variable.
class RealModelBeamsTest : public testing::TestWithParam<Room> {};

TEST_P(RealModelBeamsTest, Hypotheses_EqualTransformers) {
  const char* path = std::getenv("QUIRE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "QUIRE_TEST_MODEL is not set";
  const auto cases = ReadCases("smollm2");
  ASSERT_GE(cases.size(), 15u);
  EXPECT_EQ(ExpectGolden(ModelFiles::Open(path), cases, GetParam()) > 0, GetParam().num_blocks < 1000);
}

// The model's weights are quantised, so activations are rounded to 16 bits and scores differ more.
INSTANTIATE_TEST_SUITE_P(SmolLm2, RealModelBeamsTest,
                         testing::Values(Room{1, 2000, 0, PreemptionMode::kAuto, 5e-3},
                                         Room{2, 50, 0, PreemptionMode::kRecompute, 5e-3},
                                         Room{3, 50, 400, PreemptionMode::kSwap, 5e-3}),
                         [](const testing::TestParamInfo<Room>& room) {
                           return "OnRanks" + std::to_string(room.param.ranks);
                         });

}  // namespace
}  // namespace quire
