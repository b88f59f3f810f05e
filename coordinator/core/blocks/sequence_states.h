#pragma once

#include <array>
#include <span>
#include <vector>

#include "coordinator/core/blocks/block_fill.h"
#include "coordinator/core/blocks/block_options.h"
#include "coordinator/core/blocks/block_pool.h"
#include "coordinator/core/blocks/prefix_sharing.h"
#include "coordinator/core/blocks/sequence.h"

namespace quire {

/// Allocates the blocks of recurrent states and decides which states are kept as checkpoints. Models without states do
/// not use this class. Every step that computes a sequence writes its state. A state that is shared or kept as a
/// checkpoint is never written: the step copies it first and writes the copy. The last owner of a state that is no
/// checkpoint writes in place. A state is kept as a checkpoint at three kinds of places:
///   - in a prompt, if the checkpoint saves at least state_spacing tokens: at its last full block, and where its cached
///     keys and values ended if they reached further than its cached states;
///   - in generated text: at every kCheckpointBlocks-th block, but only the latest such state of each sequence;
///   - at the end of a sequence, if its computed tokens fill whole blocks.
class SequenceStates {
 public:
  static constexpr int kCheckpointBlocks = 16;

  SequenceStates(const BlockManagerOptions& options, BlockPool& pool, BlockFill& fill, PrefixSharing& prefixes);

  void Resize(int state_blocks) { num_blocks_ = state_blocks; }
  /// Returns the number of blocks of one state. 0: the model has no states, and the other methods need not be called
  /// for its sequences.
  int num_blocks() const { return num_blocks_; }

  /// Returns where a chunk [start, end) should end so that a checkpoint can be made there: `end` or an earlier token.
  int CutAt(const Sequence& sequence, int start, int end) const;
  /// Returns how many draft tokens a decode of the sequence may have so that the decode does not go beyond the next
  /// generated token after which a checkpoint is made.
  int DraftsUpToCheckpoint(const Sequence& sequence) const;
  /// Returns the number of blocks that Grow takes for the states of all targets. The targets are sequences of one
  /// request.
  int BlocksToGrow(std::span<const GrowTarget> targets) const;
  /// Returns an upper bound of BlocksToGrow for one sequence, independent of other sequences.
  int MostToGrow(const Sequence& sequence) const;
  /// Makes the state writable for the next step, and adds the change to the plan if the workers know the sequence.
  /// Requires BlocksToGrow free blocks. A checkpoint is made only if the blocks of a state and `reserved` further
  /// blocks are free. Otherwise an unshared state is written in place, and its checkpoint, if any, is forgotten.
  void Grow(Sequence& sequence, int reserved, StepPlan& plan);
  /// Gives the sequence its own state. The state's content arrives later. Needs the blocks of a state if the sequence
  /// has no state, or shares it. Requires that the plan does not copy the sequence's present state (IsCopiedBy).
  void Renew(Sequence& sequence);
  /// True when the plan copies the sequence's state for another sequence.
  bool IsCopiedBy(const StepPlan& plan, const Sequence& sequence) const;
  /// Makes the coming checkpoint findable once all its tokens are computed. Call it after PrefixSharing::NameComputed.
  void Computed(Sequence& sequence);
  /// Keeps the state of a sequence that ends, if its computed tokens fill whole blocks and no step of it is in flight.
  void KeepLast(Sequence& sequence);
  /// Lets `child` share the state of `parent`.
  void Fork(const Sequence& parent, Sequence& child);
  /// Gives back the device blocks of the sequence's states.
  void Free(Sequence& sequence);
  /// Releases the blocks from which the plan copies. Call it when the plan is complete.
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
  std::vector<BlockId> settling_;  // blocks that Settle releases
};

}  // namespace quire
