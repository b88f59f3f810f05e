#pragma once

#include <functional>
#include <map>
#include <vector>

#include "comm/collective/block_runs.h"
#include "worker/model/shard.h"

namespace quire {

/// What goes of every KV block from a rank of one group to a rank of another, as runs of the giver's block and of the
/// taker's: equally many bytes, in the same order. Both are empty where nothing goes.
struct BlockCut {
  BlockRuns given, taken;
};

/// Two groups have the same model and keep keys and values alike, but may cut the heads otherwise. Each head that a
/// rank of `takers` has comes from one rank of `givers`: of the same number if that has it, else of those that have it
/// another for other takers. `head_bytes`: as KvLayout has it.
BlockCut CutBetween(const ModelSpec& spec, const std::vector<RankShard>& givers, Rank giver,
                    const std::vector<RankShard>& takers, Rank taker,
                    const std::function<int64_t(int64_t)>& head_bytes);

/// One rank's part in every exchange of blocks with groups of any cut. Cuts that were asked for last are kept.
class BlockCuts {
 public:
  struct Own {
    const ModelSpec* spec;       // outlives this
    std::vector<double> shares;  // of its group
    Rank rank;
    int64_t block_bytes;
    std::function<int64_t(int64_t)> head_bytes;
  };
  explicit BlockCuts(Own own) : own_(std::move(own)) {}

  /// By rank of the other group: the runs of this rank's blocks that go there, or that come from there. Where both
  /// groups have the same shares a whole block goes between equal ranks, whatever is in it. Throws Error on shares
  /// that no group of this model has.
  const std::vector<BlockRuns>& To(const std::vector<double>& shares) { return Find(to_, shares, true); }
  const std::vector<BlockRuns>& From(const std::vector<double>& shares) { return Find(from_, shares, false); }

 private:
  using Known = std::map<std::vector<double>, std::vector<BlockRuns>>;
  const std::vector<BlockRuns>& Find(Known& known, const std::vector<double>& shares, bool gives);

  Own own_;
  Known to_, from_;
};

}  // namespace quire
