#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "coordinator/core/blocks/block_pool.h"

namespace quire {

/// The state after num_tokens tokens, which an outstanding step computes. The state becomes a checkpoint when the
/// step's result arrives.
struct ComingCheckpoint {
  int num_tokens = 0;
  std::vector<BlockId> blocks;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(num_tokens, blocks);
  }
};

/// Identifies a checkpoint. Ids are never reused. 0: none.
using CheckpointId = uint64_t;

/// Recurrent states saved at block boundaries, so that sequences can start there instead of at their first token. A
/// checkpoint belongs to the cached block that ends at its boundary, and is found by that block. The checkpoint's own
/// blocks behave like cached blocks: no step writes them, sequences that start at the checkpoint hold them, and without
/// holders they may be reused. When one of them, or the block to which the checkpoint belongs, is reused, the whole
/// checkpoint is forgotten and its remaining blocks become empty.
class StateCheckpoints {
 public:
  StateCheckpoints(int num_blocks, BlockPool& pool) : pool_(pool) { Resize(num_blocks); }

  /// Changes the number of blocks. No checkpoint may exist.
  void Resize(int num_blocks);

  /// Returns the blocks of the checkpoint that belongs to the cached block `end`; empty: there is none.
  std::span<const BlockId> Find(BlockId end) const;
  /// True when the block is part of a checkpoint.
  bool Holds(BlockId block) const;
  /// Returns the cached block to which `block`'s checkpoint belongs. Requires Holds(block).
  BlockId EndOf(BlockId block) const { return checkpoints_.at(At(block)).end; }

  /// Makes `blocks`, which the caller holds, the checkpoint of the cached block `end`. Returns the checkpoint's id;
  /// returns 0 and changes nothing when `end` already has a checkpoint.
  CheckpointId Keep(BlockId end, std::span<const BlockId> blocks);
  /// Removes a checkpoint; sequences that started there still hold its blocks. Ignores unknown ids.
  void Forget(CheckpointId id);
  /// Removes the checkpoint, if any, to which the block belongs as a part or as the end.
  void ForgetOf(BlockId block);
  void Clear();

  struct Checkpoint {
    BlockId end;
    std::vector<BlockId> blocks;

    template <class Archive>
    void Transfer(Archive& archive) {
      archive(end, blocks);
    }
  };
  const std::map<CheckpointId, Checkpoint>& all() const { return checkpoints_; }
  /// Returns the number of checkpoints ever made, forgotten checkpoints included.
  uint64_t num_kept() const { return last_id_; }

  /// Aborts unless checkpoints and blocks refer to each other.
  void CheckIntegrity() const;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(checkpoints_, of_block_, last_id_);
  }

 private:
  CheckpointId& At(BlockId block) { return of_block_[static_cast<size_t>(block)]; }
  CheckpointId At(BlockId block) const { return of_block_[static_cast<size_t>(block)]; }

  BlockPool& pool_;
  std::map<CheckpointId, Checkpoint> checkpoints_;
  std::vector<CheckpointId> of_block_;  // by block: the checkpoint to which the block belongs as a part or as the end
  CheckpointId last_id_ = 0;
};

}  // namespace quire
