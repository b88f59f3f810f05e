#pragma once

#include "comm/collective/block_runs.h"
#include "worker/model/shard.h"

namespace quire {

/// A rank's part of a whole state. The whole state is one sequence's recurrent state in a group that consists of one
/// rank, but without gaps: [layers that keep a state][convolution state, state of the heads]. `given` is what the rank
/// sends of the whole state, chosen so that all ranks together send each byte once. `taken` is all of the rank's state,
/// which may have key heads that other ranks have, too. Each of the two is listed as runs of the rank's own state and
/// as runs of the whole state.
struct StateCut {
  struct Runs {
    BlockRuns here;   // runs of the rank's own state (StateLayout)
    BlockRuns whole;  // the same bytes as runs of the whole state
  };

  StateCut(const ModelSpec& spec, const GroupCut& cut, Rank rank);

  int64_t whole_bytes = 0;  // bytes of the whole state; 0: the model has no states
  Runs given, taken;
};

}  // namespace quire
