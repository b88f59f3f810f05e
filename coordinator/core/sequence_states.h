#pragma once

#include <array>
#include <span>
#include <vector>

#include "coordinator/core/block_fill.h"
#include "coordinator/core/block_options.h"
#include "coordinator/core/block_pool.h"
#include "coordinator/core/prefix_sharing.h"
#include "coordinator/core/sequence.h"

namespace quire {

/// Gives sequences the blocks of their states and decides which states are kept as checkpoints; of models that have
/// none nothing happens here. A state is written by every step that computes its sequence. One that other sequences
/// share, or that is to stay as a checkpoint, is never written: the writer goes on in a copy, which the step makes
/// before it computes, and the last owner of what is not kept writes in place.
/// Kept are the states at the last full block of a prompt and where a prompt's cached keys and values went further than
/// its states, if that spares state_spacing tokens; at every kCheckpointBlocks-th block that is generated (of those
/// each sequence's latest); and at the end.
class SequenceStates {
 public:
  static constexpr int kCheckpointBlocks = 16;

  SequenceStates(const BlockManagerOptions& options, BlockPool& pool, BlockFill& fill, PrefixSharing& prefixes);

  void Resize(int state_blocks) { num_blocks_ = state_blocks; }
  /// Of one state; 0: the model has none, and nothing else here need be called for its sequences.
  int num_blocks() const { return num_blocks_; }

  /// Where a chunk [start, end) of the sequence ends so that a state can be kept on the way: `end`, or before.
  int CutAt(const Sequence& sequence, int start, int end) const;
  /// Blocks that the next step of all the targets takes for their states. The targets are sequences of one request.
  int BlocksToGrow(std::span<const GrowTarget> targets) const;
  /// The same of one sequence at most, whatever the others do.
  int MostToGrow(const Sequence& sequence) const;
  /// Makes the state writable for the next step, and tells the workers if they know the sequence. The pool must have
  /// the blocks of BlocksToGrow. A state is kept if that many blocks and `reserved` others are free.
  void Grow(Sequence& sequence, int reserved, StepPlan& plan);
  /// The sequence's computed tokens have their names: the state that was left behind there can be found.
  void Computed(Sequence& sequence);
  /// The sequence ends, all that is in flight for it done or not: its state is kept if it stands at a full block.
  void KeepLast(Sequence& sequence);
  /// `child` shares the state of `parent`.
  void Fork(const Sequence& parent, Sequence& child);
  /// Gives back what the sequence has of the device.
  void Free(Sequence& sequence);
  /// The plan is complete: what it copies from may be given away.
  void Settle();

 private:
  bool IsShared(const Sequence& sequence) const;
  bool IsKept(const Sequence& sequence) const;
  std::array<int, 2> PromptCheckpoints(const Sequence& sequence) const;
  bool IsCheckpoint(const Sequence& sequence, int num_tokens) const;
  void Keep(Sequence& sequence, int num_tokens, std::span<const BlockId> blocks);
  void Allocate(Sequence& sequence);

  int block_size_, num_blocks_, spacing_;
  BlockPool& pool_;
  BlockFill& fill_;
  PrefixSharing& prefixes_;
  std::vector<BlockId> settling_;  // held until the plan is complete
};

}  // namespace quire
