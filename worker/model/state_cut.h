#pragma once

#include "comm/collective/block_runs.h"
#include "worker/model/shard.h"

namespace quire {

/// A rank's part of a whole state: the recurrent state of one sequence, as a group of one rank would have it, but
/// without gaps. The whole state is [layers that keep a state][convolution state, state of the heads]. `given` is what
/// the rank sends of the whole state, so that all ranks together send each byte once. `taken` is the rank's whole
/// state, which may share heads of keys with other ranks. Each is listed twice, with the same bytes in the same order.
struct StateCut {
  struct Runs {
    BlockRuns here;   // runs of the rank's own state (StateLayout)
    BlockRuns whole;  // the same bytes as runs of the whole state
  };

  StateCut(const ModelSpec& spec, const GroupCut& cut, Rank rank);

  int64_t whole_bytes = 0;  // bytes of the whole state; 0: the model has none
  Runs given, taken;
};

}  // namespace quire
