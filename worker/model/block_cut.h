#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "comm/collective/block_runs.h"
#include "worker/model/shard.h"
#include "worker/model/state_cut.h"

namespace quire {

/// The bytes of every KV block that go from one rank of a group to one rank of another group. `given` lists runs of the
/// source block and `taken` lists runs of the destination block: the same number of bytes in the same order. Both lists
/// are empty where no bytes go.
struct BlockCut {
  BlockRuns given, taken;
};

/// Computes the bytes that rank `giver` of one group sends to rank `taker` of another. Both groups have the same model
/// and the same KV layout per head, but may split heads and layers differently. Each head of a layer comes from one
/// rank: from the sending rank with the receiving rank's number if it has the head, otherwise from one of the ranks
/// that have the head, chosen in turn by the receiving rank's number. `head_bytes`, `latents_once`: see KvLayout.
BlockCut CutBetween(const ModelSpec& spec, const std::vector<RankShard>& givers, Rank giver,
                    const std::vector<RankShard>& takers, Rank taker, const std::function<int64_t(int64_t)>& head_bytes,
                    bool latents_once = false);

/// A rank's part of a whole block. A whole block is a block of a group that consists of one rank.
struct WholeBlockPart {
  int64_t block_bytes = 0;  // bytes of the whole block
  BlockRuns given;          // runs of the whole block that this rank would send to a group of one rank
  BlockRuns taken;          // runs of the whole block that this rank would get from a group of one rank
};
WholeBlockPart PartOfWhole(const ModelSpec& spec, const GroupCut& cut, Rank rank,
                           const std::function<int64_t(int64_t)>& head_bytes, bool latents_once = false);

/// Finds the runs (byte ranges) of one rank's blocks that are exchanged with another group, however that group divides
/// the model. The results for the most recently used divisions are cached.
class BlockCuts {
 public:
  struct Own {
    const ModelSpec* spec;  // must outlive the object
    GroupCut cut;           // how the rank's own group divides the model
    Rank rank;
    int64_t block_bytes;
    std::function<int64_t(int64_t)> head_bytes;
    bool latents_once = false;
  };
  explicit BlockCuts(Own own) : own_(std::move(own)) {}

  /// Returns, by rank of the other group, the runs of this rank's blocks that are sent to (To) or received from (From)
  /// that rank. If both groups divide the model in the same way, whole blocks go between ranks of equal number, states
  /// included. Throws Error if `cut`, the other group's division, does not fit the model.
  const std::vector<BlockRuns>& To(const GroupCut& cut) { return Find(to_, cut, true); }
  const std::vector<BlockRuns>& From(const GroupCut& cut) { return Find(from_, cut, false); }
  /// Returns the rank's part of a sequence's whole state.
  const StateCut& State() {
    if (!state_) state_.emplace(*own_.spec, own_.cut, own_.rank);
    return *state_;
  }

 private:
  using Known = std::map<GroupCut, std::vector<BlockRuns>>;
  const std::vector<BlockRuns>& Find(Known& known, const GroupCut& cut, bool gives);

  Own own_;
  Known to_, from_;
  std::optional<StateCut> state_;
};

}  // namespace quire
