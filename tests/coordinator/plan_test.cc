// Tests the estimates of `quire plan`: numbers of blocks and of sequences, step times at given peak rates, waits for
// links between hosts, and the fastest way to divide a model.
#include <gtest/gtest.h>

#include "comm/model/architecture.h"
#include "comm/model/model_files.h"
#include "coordinator/cluster/hosts/memory_plan.h"
#include "coordinator/plan/cut_speed.h"
#include "coordinator/plan/speed_plan.h"

namespace quire {
namespace {

ModelSpec SpecOf(const std::string& model) {
  return ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model).spec();
}

/// Returns a plan of two ranks with 1 MB of weights each. Each rank holds 512 bytes of keys and values for a token.
MemoryPlan TwoRanks() {
  MemoryPlan plan;
  plan.assignment.block_size = 16;
  plan.assignment.max_step_tokens = 100;
  plan.ranks.resize(2);
  for (RankInfo& rank : plan.ranks) {
    rank.weight_bytes = 1'000'000;
    rank.bytes_per_block = 16 * 512;
  }
  plan.pools.num_blocks = 101;
  return plan;
}

TEST(BlocksOfSequenceTest, NumberOfBlocks_IsRoundedUp) {
  const ModelSpec spec = SpecOf("gqa");
  EXPECT_EQ(BlocksOfSequence(spec, 16, 1), 1);
  EXPECT_EQ(BlocksOfSequence(spec, 16, 16), 1);
  EXPECT_EQ(BlocksOfSequence(spec, 16, 17), 2);
}

TEST(BlocksOfSequenceTest, NumberOfBlocks_IsBounded_ForSlidingWindows) {
  const ModelSpec spec = SpecOf("swa");
  ASSERT_GT(spec.window(), 0);
  const int64_t most = BlocksOfSequence(spec, 4, 1'000'000);
  EXPECT_EQ(most, BlocksOfSequence(spec, 4, 2'000'000));
  // A window touches the most blocks when it begins at the last token of a block.
  EXPECT_EQ(most, 1 + (spec.window() - 1 + 3) / 4);
}

TEST(SequencesAtOnceTest, NumberOfSequencesAtOnce_IsBoundedByBlocksStatesAndMaxRunning) {
  const ModelSpec spec = SpecOf("gqa");
  Topology topology;
  topology.cache.block_size = 16;
  topology.scheduler.max_running = 30;
  EXPECT_EQ(SequencesAtOnce(TwoRanks(), topology, spec, 64), 25);
  EXPECT_EQ(SequencesAtOnce(TwoRanks(), topology, spec, 16), 30);
  EXPECT_EQ(SequencesAtOnce(TwoRanks(), topology, spec, 1601), 0);
  MemoryPlan with_states = TwoRanks();
  with_states.pools.state_blocks = 6;
  EXPECT_EQ(SequencesAtOnce(with_states, topology, spec, 64), 10) << "4 blocks of tokens and a state";
}

TEST(StepSpeedTest, SingleSequence_IsBoundByReadingMemory) {
  const ModelSpec spec = SpecOf("gqa");
  const PeakRates peaks{.read_bytes = 1e6, .products = 1e15, .attention = 1e15, .multiply_add = 1e15};
  const SpeedRow row = StepSpeed(spec, TwoRanks(), peaks, 1, 100);
  EXPECT_NEAR(row.roofline, 2.0 + 100 * 1024 * 1e-6, 1e-9);  // the weights, and the keys and values of 100 tokens
  EXPECT_EQ(row.bound, "reading weights");
  EXPECT_GE(row.expected, row.roofline);
  EXPECT_EQ(StepSpeed(spec, TwoRanks(), peaks, 1, 1'000'000).bound, "reading the KV cache");
}

// Gemma 4: three layers with heads of size 12 and three with heads of size 16, each with two KV heads. The last layer
// of each kind reads the keys and values of another layer.
TEST(StepSpeedTest, Attention_CountsHeadSizesOfEachLayer_AndReadsSharedKeysAgain) {
  const ModelSpec spec = SpecOf("gemma4");
  const int64_t tokens = 10;  // fewer tokens than the window
  const PeakRates attention{.read_bytes = 1e15, .products = 1e15, .attention = 1e6, .multiply_add = 1e15};
  EXPECT_NEAR(StepSpeed(spec, TwoRanks(), attention, 1, tokens).roofline, 4.0 * 4 * 10 * (3 * 12 + 3 * 16) / 1e6, 1e-9);
  const PeakRates reading{.read_bytes = 1e6, .products = 1e15, .attention = 1e15, .multiply_add = 1e15};
  // A block holds the keys and values of two layers of each kind; three layers of each kind read them.
  EXPECT_NEAR(StepSpeed(spec, TwoRanks(), reading, 1, tokens).roofline, 2.0 + 1.5 * 10 * 1024 * 1e-6, 1e-9);
}

TEST(StepSpeedTest, ManySequences_AreBoundByProducts) {
  const ModelSpec spec = SpecOf("gqa");
  const PeakRates peaks{.read_bytes = 1e15, .products = 1e6, .attention = 1e15, .multiply_add = 1e15};
  const SpeedRow one = StepSpeed(spec, TwoRanks(), peaks, 1, 100), ten = StepSpeed(spec, TwoRanks(), peaks, 10, 100);
  const auto operations = 2.0 * static_cast<double>(LayerMatrixNumbers(spec) + spec.hidden_size * spec.vocab_size);
  EXPECT_NEAR(one.roofline, operations / 1e6, 1e-6 * one.roofline);
  EXPECT_NEAR(ten.roofline, 10 * one.roofline, 1e-6 * ten.roofline);
  EXPECT_EQ(ten.bound, "products");
}

TEST(PromptSpeedTest, Attention_GrowsWithTheSquareOfThePrompt_AndEachStepReadsTheWeights) {
  const ModelSpec spec = SpecOf("gqa");
  const PeakRates attention{.read_bytes = 1e15, .products = 1e15, .attention = 1e6, .multiply_add = 1e15};
  const SpeedRow once = PromptSpeed(spec, TwoRanks(), attention, 1000),
                 twice = PromptSpeed(spec, TwoRanks(), attention, 2000);
  EXPECT_NEAR(twice.roofline / once.roofline, 4, 1e-6);
  EXPECT_EQ(once.bound, "attention");
  // A query takes 4 operations for each number of all heads and each earlier token.
  const auto pairs = 4.0 * static_cast<double>(spec.num_layers() * spec.num_heads * spec.layers[0].head_dim);
  EXPECT_NEAR(once.roofline, pairs * 1000 * 1000 / 2 / 1e6, 1e-6 * once.roofline);

  MemoryPlan plan = TwoRanks();
  for (RankInfo& rank : plan.ranks) rank.bytes_per_block = 0;
  const PeakRates reading{.read_bytes = 1e6, .products = 1e15, .attention = 1e15, .multiply_add = 1e15};
  EXPECT_NEAR(PromptSpeed(spec, plan, reading, 250).roofline, 3 * 2.0, 1e-9);  // steps of 100, 100 and 50 tokens
}

/// A link of 1 Gbit/s with a delay of 1 ms.
constexpr HostLink kSlowLink{1.25e8, 1e-3};

GroupCut CutOf(int tensor, int stages) {
  return {std::vector<double>(static_cast<size_t>(tensor), 1.0),
          stages > 1 ? std::vector<int32_t>(static_cast<size_t>(stages), 1) : std::vector<int32_t>()};
}

TEST(CutWaitTest, AllReduce_TakesOneDelayAndTheTimeOfItsBytes_OverTwoHosts) {
  const CutWait short_row = WaitOver(kSlowLink, CutOf(2, 1), {0, 1}, 2304, 1);
  EXPECT_NEAR(short_row.sum, 1e-3 + 2304 / 1.25e8, 1e-12);
  EXPECT_EQ(short_row.turn, 0);
  EXPECT_NEAR(WaitOver(kSlowLink, CutOf(2, 1), {0, 1}, 2304, 32).sum, 1e-3 + 73'728 / 1.25e8, 1e-12);
  // MPI asks the receiver before it sends more than 320 KiB. Question, answer and data take one delay each, so the
  // 400,000 bytes of two ranks wait for three delays.
  EXPECT_NEAR(WaitOver(kSlowLink, CutOf(4, 1), {0, 0, 1, 1}, 2000, 100).sum, 3e-3 + 400'000 / 1.25e8, 1e-12);
  // A rank's 600,000 bytes are sent in three pieces, the last one of 75,712 bytes.
  EXPECT_NEAR(WaitOver(kSlowLink, CutOf(2, 1), {0, 1}, 6000, 100).sum, 3e-3 + 600'000 / 1.25e8, 1e-12);
  // Two ranks of a host send at the same time, to two other hosts.
  EXPECT_NEAR(WaitOver(kSlowLink, CutOf(6, 1), {0, 0, 1, 1, 2, 2}, 1000, 1).sum, 1e-3 + 2 * 2000 / 1.25e8, 1e-12);
  EXPECT_EQ(WaitOver(kSlowLink, CutOf(2, 1), {0, 0}, 2304, 32).sum, 0) << "one host";
}

TEST(CutWaitTest, PipelineWait_CountsOneHandOverPerStage_AndTheTokensBack) {
  const CutWait two = WaitOver(kSlowLink, CutOf(1, 2), {0, 1}, 2304, 1);
  EXPECT_EQ(two.sum, 0);
  EXPECT_NEAR(two.turn, 2e-3 + 2304 / 1.25e8, 1e-12);
  EXPECT_NEAR(WaitOver(kSlowLink, CutOf(1, 3), {0, 1, 2}, 2304, 32).turn, 2 * (1e-3 + 73'728 / 1.25e8) + 1e-3, 1e-12);
  EXPECT_EQ(WaitOver(kSlowLink, CutOf(1, 2), {0, 0}, 2304, 32).turn, 0);
  // Ranks 0 and 1 are the last stage, on one host. Each rank of the first stage sends half of the rows to the last
  // stage.
  const CutWait both = WaitOver(kSlowLink, CutOf(2, 2), {0, 0, 1, 1}, 2304, 32);
  EXPECT_EQ(both.sum, 0);
  EXPECT_NEAR(both.turn, 2e-3 + 73'728 / 1.25e8, 1e-12);
  // Stages that span both hosts sum over the hosts. They send rows within a host, and then gather the halves.
  const CutWait across = WaitOver(kSlowLink, CutOf(2, 2), {0, 1, 0, 1}, 2304, 1);
  EXPECT_NEAR(across.sum, 1e-3 + 2304 / 1.25e8, 1e-12);
  EXPECT_NEAR(across.turn, 1e-3 + 1152 / 1.25e8, 1e-12);
}

TEST(CutWaitTest, RanksOfStageOnHost_CountsTheMostRanksOfAStageOnOneHost) {
  EXPECT_EQ(RanksOfStageOnHost(CutOf(3, 1), {0, 0, 1}), 2);
  EXPECT_EQ(RanksOfStageOnHost(CutOf(2, 2), {0, 1, 0, 1}), 1);
  EXPECT_EQ(RanksOfStageOnHost(CutOf(2, 2), {0, 0, 1, 1}), 2);
}

TEST(CutSpeedTest, FastestCut_IsAdvised_ForEachNumberOfStreams) {
  const CutSpeed tensor{.tensor = 2, .pipeline = 1, .streams = 1, .compute = 0.01, .sums = 61, .wait = {1e-3, 0}};
  EXPECT_NEAR(tensor.seconds(), 0.071, 1e-12);
  EXPECT_NEAR(tensor.tokens_a_second(), 1 / 0.071, 1e-9);
  const CutSpeed stages{.tensor = 1, .pipeline = 2, .streams = 1, .compute = 0.02, .sums = 0, .wait = {0, 2e-3}};
  CutSpeed many = tensor, alone = stages;
  many.streams = alone.streams = 32;
  alone.one_host = true;
  alone.pipeline = 1;
  alone.compute = 1;
  const std::vector<CutSpeed> speeds = {tensor, stages, many, alone};
  EXPECT_EQ(BestCut(speeds, 1), 1U);
  EXPECT_EQ(BestCut(speeds, 32), 2U);
  EXPECT_EQ(AdviceOf(speeds),
            (std::vector<std::string>{"-tp 1 -pp 2 for 1 stream: 3.23 times as fast as -tp 2 -pp 1",
                                      "-tp 2 -pp 1 for 32 streams: 14.11 times as fast as -tp 1 on one host"}));
  EXPECT_TRUE(AdviceOf({tensor}).empty()) << "nothing to choose from";
}

TEST(CutSpeedTest, LargestStage_SetsTheTimeOfAStep_WhenStreamsFillAllStages) {
  CutSpeed cut{.tensor = 1, .pipeline = 4, .streams = 32, .compute = 0.04, .wait = {0, 2e-3}, .largest_stage = 0.25};
  EXPECT_NEAR(cut.seconds(), 0.042, 1e-12) << "even stages";
  cut.largest_stage = 0.4;
  EXPECT_NEAR(cut.seconds(), 4 * 0.016, 1e-12);
  cut.streams = 2;
  EXPECT_NEAR(cut.seconds(), 0.042, 1e-12) << "two steps are under way, and each goes through all stages";
}

}  // namespace
}  // namespace quire
