#include "worker/model/state_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/model/model_files.h"
#include "kernels/causal_conv.h"
#include "kernels/state_view.h"
#include "worker/model/state_layout.h"

namespace quire {
namespace {

/// Tests models with short convolutions, with the delta rule, with state spaces whose ranks share a head of keys, and
/// with such state spaces beside layers that have only an MLP.
class StateCutTest : public testing::TestWithParam<const char*> {
 protected:
  const ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  const ModelSpec& spec_ = files_.spec();

  std::vector<GroupCut> Cuts() const {
    std::vector<GroupCut> cuts = {{{1.0}, {}}};
    for (int ranks = 2; ranks <= std::min<int64_t>(4, spec_.num_heads); ++ranks)
      cuts.push_back({std::vector<double>(static_cast<size_t>(ranks), 1.0), {}});
    cuts.push_back({{1.0, 2.5}, {}});
    // Each stage needs a layer with keys and values.
    const auto has_kv = [](const LayerSpec& layer) { return layer.has_kv(); };
    const auto first = std::ranges::find_if(spec_.layers, has_kv) - spec_.layers.begin() + 1;
    if (std::any_of(spec_.layers.begin() + first, spec_.layers.end(), has_kv)) {
      const auto stage = static_cast<int32_t>(first), rest = static_cast<int32_t>(spec_.num_layers() - first);
      cuts.push_back({{1.0}, {stage, rest}});
      cuts.push_back({{2.0, 1.0}, {stage, rest}});
    }
    return cuts;
  }
  /// Returns the bytes of the parts of a rank's state, without the gaps between them.
  int64_t BytesOfParts(const RankShard& shard) const {
    int64_t bytes = 0;
    for (int64_t i = shard.stage.begin; i < shard.stage.end; ++i) {
      const LayerSpec& layer = spec_.layers[static_cast<size_t>(i)];
      const Recurrence& r = spec_.recurrence;
      if (layer.has_state()) bytes += kernels::CausalConvStateBytes(ConvolvedChannels(spec_, shard), r.taps);
      if (layer.has_state_heads()) bytes += kernels::HeadStateBytes(shard.value_heads.size(), r.key_dim, r.value_dim);
    }
    return bytes;
  }
};

void Copy(const BlockRuns& from_runs, const std::vector<int>& from, const BlockRuns& to_runs, std::vector<int>& to) {
  ASSERT_EQ(from_runs.size(), to_runs.size());
  for (size_t i = 0; i < from_runs.size(); ++i) {
    ASSERT_EQ(from_runs[i].bytes, to_runs[i].bytes);
    ASSERT_LE(from_runs[i].at + from_runs[i].bytes, std::ssize(from));
    ASSERT_LE(to_runs[i].at + to_runs[i].bytes, std::ssize(to));
    std::copy_n(from.begin() + from_runs[i].at, from_runs[i].bytes, to.begin() + to_runs[i].at);
  }
}

TEST_P(StateCutTest, WholeState_IsSentOnce_AndRestoredUnchanged_ByGroupsOfAnyShape) {
  const int64_t whole_bytes = StateCut(spec_, {{1.0}, {}}, 0).whole_bytes;
  EXPECT_EQ(whole_bytes, BytesOfParts(PlanShards(spec_, {1.0}).front()));
  std::vector<int> whole(static_cast<size_t>(whole_bytes));
  std::iota(whole.begin(), whole.end(), 1);
  for (const GroupCut& cut : Cuts()) {
    const std::vector<RankShard> shards = PlanGroup(spec_, cut);
    std::vector<int> given(whole.size()), times(whole.size());
    for (Rank rank = 0; rank < cut.num_ranks(); ++rank) {
      const StateCut state(spec_, cut, rank);
      EXPECT_EQ(state.whole_bytes, whole_bytes);
      const RankShard& shard = shards[static_cast<size_t>(rank)];
      EXPECT_EQ(BytesOf(state.taken.here), BytesOfParts(shard)) << rank;
      std::vector<int> own(static_cast<size_t>(StateLayout(spec_, shard).bytes));
      Copy(state.taken.whole, whole, state.taken.here, own);
      Copy(state.given.here, own, state.given.whole, given);
      for (const BlockRun& run : state.given.whole) {
        for (int64_t at = run.at; at < run.at + run.bytes; ++at) ++times[static_cast<size_t>(at)];
      }
    }
    EXPECT_EQ(given, whole);
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StateCutTest,
                         testing::Values("lfm2", "lfm3", "qwen3next", "qwen35moe", "granitehybridmoe", "bamba",
                                         "nemotronh", "falconh1after"));

}  // namespace
}  // namespace quire
