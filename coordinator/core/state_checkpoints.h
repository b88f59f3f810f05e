#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "coordinator/core/block_pool.h"

namespace quire {

/// Tells checkpoints apart; never given twice. 0: none.
using CheckpointId = uint64_t;

/// States that are kept at block boundaries, so that sequences can begin there instead of at their first token. A
/// checkpoint belongs to the cached block that ends at its boundary, and is found by it. Its own blocks are like cached
/// ones: they are never written, they are held by whoever begins there, and while nobody holds them they are given away
/// when others need blocks. Once one of them, or the block that it belongs to, is given away, the whole is forgotten
/// and the rest of its blocks is empty.
class StateCheckpoints {
 public:
  StateCheckpoints(int num_blocks, BlockPool& pool) : pool_(pool) { Resize(num_blocks); }

  /// For another number of blocks. No checkpoint may be left.
  void Resize(int num_blocks);

  /// The blocks of the checkpoint that belongs to the cached block `end`; none: there is no such.
  std::span<const BlockId> Find(BlockId end) const;
  /// True when the block is part of a checkpoint.
  bool Holds(BlockId block) const;

  /// `blocks`, which somebody holds, are the checkpoint of the cached block `end` from now on. 0, and nothing is
  /// changed, when it has one.
  CheckpointId Keep(BlockId end, std::span<const BlockId> blocks);
  /// Nobody begins there any more; whoever did keeps its blocks. Ids of checkpoints that are gone are ignored.
  void Forget(CheckpointId id);
  /// The same of the checkpoint that the block is part of or that belongs to it, if there is one.
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
  /// Kept so far, those that were forgotten counted in.
  uint64_t num_kept() const { return last_id_; }

  /// Aborts unless checkpoints and blocks name each other.
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
  std::vector<CheckpointId> of_block_;  // by block: the checkpoint that it is part of, or that belongs to it
  CheckpointId last_id_ = 0;
};

}  // namespace quire
