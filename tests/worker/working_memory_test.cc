// Tests the memory that a rank of the CPU backend reports in addition to weights and KV blocks.
#include "worker/cpu/working_memory.h"

#include <gtest/gtest.h>

#include "comm/model/model_files.h"
#include "worker/cpu/cpu_activations.h"
#include "worker/cpu/cpu_engine.h"
#include "worker/cpu/expert_activations.h"
#include "worker/model/mapped_pages.h"

namespace quire {
namespace {

ModelFiles Open(const std::string& model) {
  return ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model);
}

EngineSizes Sizes(int step_tokens, int running, int ranks = 1) {
  return {.max_step_tokens = step_tokens,
          .max_running = running,
          .max_model_len = 100,
          .shares = std::vector<double>(static_cast<size_t>(ranks), 1.0)};
}

int64_t StepBytes(const ModelFiles& files, const EngineSizes& sizes) {
  return MemoryOfCpuRank(files, sizes, 0).working.step_bytes;
}

template <class... Buffers>
int64_t SumOfBytes(const Buffers&... buffers) {
  return (static_cast<int64_t>(buffers.size() * sizeof(buffers[0])) + ...);
}

TEST(WorkingMemoryTest, BytesOfActivations_AreThoseOfTheirBuffers) {
  for (const char* model : {"gqa", "neox", "gemma4", "olmo2", "mixtral", "gemma4moe"}) {
    const ModelFiles files = Open(model);
    const RankShard shard = PlanShards(files.spec(), {1.0, 1.0}).back();
    const CpuActivations a(files.spec(), shard, 37);
    EXPECT_EQ(CpuActivations::Bytes(files.spec(), shard, 37),
              SumOfBytes(a.residual, a.normed, a.qkv, a.attended, a.gate_up, a.activated, a.squares, a.layer_inputs,
                         a.gated_input, a.delta))
        << model;
    const ExpertActivations e(files.spec(), shard, 37);
    EXPECT_EQ(ExpertActivations::Bytes(files.spec(), shard, 37),
              SumOfBytes(e.logits, e.chosen, e.weights, e.start, e.pair_of_row, e.row_of_pair, e.gate_up, e.activated,
                         e.out, e.shared_gate_up, e.shared_activated, e.shared, e.terms, e.sums))
        << model;
  }
}

TEST(WorkingMemoryTest, StepBytes_GrowWithTokensOfAStep_RowsThatDraw_AndRotations) {
  const ModelFiles files = Open("gqa");
  const ModelSpec& spec = files.spec();
  const int64_t few = StepBytes(files, Sizes(100, 40));
  EXPECT_EQ(StepBytes(files, Sizes(100, 50)) - few, 10 * spec.vocab_size * 4) << "a row of logits for each sequence";
  EngineSizes sizes = Sizes(100, 40);
  sizes.draft_rows = 50;
  EXPECT_EQ(StepBytes(files, sizes) - few, 10 * spec.vocab_size * 4) << "rows with drafts draw, too";
  EXPECT_EQ(StepBytes(files, Sizes(100, 4)), StepBytes(files, Sizes(100, 1))) << "prompts are scored by 32 rows";
  EXPECT_GE(StepBytes(files, Sizes(101, 40)) - few, 4 * 4 * spec.hidden_size);
  sizes = Sizes(100, 40);
  sizes.max_model_len += 1000;
  EXPECT_EQ(StepBytes(files, sizes) - few, 1000 * RotatedDims(spec, 0) * 4);
}

TEST(WorkingMemoryTest, MemoryOfCpuRank_CountsTheDraftModel_OnRankZeroOnly) {
  const ModelFiles files = Open("gqa"), draft = Open("mha");
  EngineSizes sizes = Sizes(100, 40, 2);
  const auto working = [&](Rank rank) { return MemoryOfCpuRank(files, sizes, rank).working; };
  const WorkingMemory first = working(0), second = working(1);
  sizes.draft = {.files = &draft, .num_tokens = 3, .max_sequences = 8, .max_model_len = 100};
  EXPECT_GT(working(0).step_bytes, first.step_bytes);
  EXPECT_GT(working(0).file_bytes, first.file_bytes);
  EXPECT_EQ(working(1).total(), second.total());
}

TEST(WorkingMemoryTest, MappedPages_OfSmallFiles_AreNoMoreThanTheFiles) {
  const ModelFiles files = Open("gqa");
  EXPECT_EQ(MappedPages::MostBytes(files), files.TotalBytes() + MappedPages::kAroundBytes);
  EXPECT_LT(MappedPages::MostBytes(files), MappedPages::kMostBytes);
}

TEST(WorkingMemoryTest, PlacesReadAtOnce_StayWithinTheBound_AndAreAtLeastOne) {
  for (const int64_t bytes : {1, 1000, 1 << 20, 1 << 30}) {
    const int64_t places = MappedPages::PlacesAtOnce(bytes);
    EXPECT_GE(places, 1);
    EXPECT_TRUE(places == 1 || places * (bytes + MappedPages::kAroundBytes) <= MappedPages::kMostBytes) << bytes;
  }
}

}  // namespace
}  // namespace quire
