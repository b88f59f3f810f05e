#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/cluster/tier/group_blocks.h"
#include "coordinator/core/engine/engine.h"
#include "coordinator/kv_disk/kv_store.h"

namespace quire {

/// Copies blocks that newly enter the prefix cache, and checkpoints of states, from the workers to the store while
/// steps run: a few blocks at a time, or one state. A block that is reused before its copy, or a state that is
/// forgotten before its copy, is not stored. If too many of them wait because the store is busy for long, the oldest
/// are left out. Only the engine's thread may use it.
class KvSaver : public CacheListener {
 public:
  KvSaver(KvStore& store, GroupBlocks& group, int block_size) : store_(store), group_(group), block_size_(block_size) {}

  void OnFindable(const Sequence& sequence, int index) override;
  void OnStateKept(const Sequence& sequence, int num_tokens, CheckpointId id) override;
  /// Called in every round of the engine's loop.
  void Round(Engine& engine);
  /// True while blocks or states wait for the store or are being copied to it.
  bool IsSaving() const { return saving_ || !fresh_.empty() || !fresh_states_.empty(); }
  /// True when the report is about a transfer of this object.
  bool OnReport(const BlocksReport& report);
  bool OnEnd(const BlockTransferEnd& end);
  /// Forgets all blocks and states that wait to be saved. Called when the ranks were replaced.
  void Forget();

 private:
  /// A sequence's leading full blocks with their hashes.
  struct Chain {
    SequenceId sequence = 0;
    std::vector<BlockId> blocks;
    std::vector<BlockHash> hashes;
  };
  struct Fresh {
    BlockId block;
    StoredName name;
    std::shared_ptr<const Chain> chain;  // blocks of the prefix, at least up to `block`
    size_t index;                        // the block's index in the chain
  };
  struct FreshState {
    CheckpointId id;
    StoredName name;
  };
  struct Saving {
    uint64_t ticket = 0;
    std::shared_ptr<std::vector<StoredBlock>> blocks;
    int ranks_ended = 0;
    bool arrived = false;  // the transfer has ended at this process
    bool failed = false;
  };
  StoredName NameOf(const Sequence& sequence, int index, StoredKind kind) const;
  void BeginBlocks(Engine& engine);
  void BeginState(Engine& engine);
  bool Hold(Engine& engine, const std::vector<BlockId>& held, const std::vector<BlockId>& blocks, Saving saving);
  static void AddChain(const Fresh& fresh, const PrefixCache& cache, std::vector<BlockId>& blocks);

  KvStore& store_;
  GroupBlocks& group_;
  const int block_size_;                 // tokens
  std::deque<Fresh> fresh_;              // oldest first
  std::deque<FreshState> fresh_states_;  // oldest first
  bool state_is_next_ = false;           // blocks and states are copied alternately
  std::optional<Saving> saving_;
};

}  // namespace quire
