#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/cluster/tier/group_blocks.h"
#include "coordinator/core/engine/engine.h"
#include "coordinator/kv_disk/kv_store.h"

namespace quire {

/// Copies blocks that become findable from the workers to the store, a few at a time, while steps run. Blocks that are
/// reused before their turn, or that come while the store is busy for long, are not stored. Belongs to the engine's
/// thread.
class KvSaver : public CacheListener {
 public:
  KvSaver(KvStore& store, GroupBlocks& group, int block_size) : store_(store), group_(group), block_size_(block_size) {}

  void OnFindable(const Sequence& sequence, int index) override;
  /// Called in every round of the engine's loop.
  void Round(Engine& engine);
  /// True when the report is about a transfer of this object.
  bool OnReport(const BlocksReport& report);
  bool OnEnd(const BlockTransferEnd& end);
  /// Forgets all blocks that wait to be saved. Called when the ranks were replaced.
  void Forget();

 private:
  /// A sequence's leading full blocks and their hashes.
  struct Chain {
    SequenceId sequence = 0;
    std::vector<BlockId> blocks;
    std::vector<BlockHash> hashes;
  };
  struct Fresh {
    BlockId block;
    StoredName name;
    std::shared_ptr<const Chain> chain;  // has at least the blocks up to this one
    size_t index;                        // of this block in the chain
  };
  struct Saving {
    uint64_t ticket = 0;
    std::shared_ptr<std::vector<StoredBlock>> blocks;
    int ranks_ended = 0;
    bool arrived = false;  // the transfer has ended at this process
    bool failed = false;
  };
  void Begin(Engine& engine);
  static void AddChain(const Fresh& fresh, const PrefixCache& cache, std::vector<BlockId>& blocks);

  KvStore& store_;
  GroupBlocks& group_;
  const int block_size_;     // tokens
  std::deque<Fresh> fresh_;  // oldest first
  std::optional<Saving> saving_;
};

}  // namespace quire
