#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/core/block_pool.h"
#include "coordinator/core/sequence.h"

namespace quire {

/// Blocks that are set aside for a request on its way from or to another engine.
struct MigrationHolding {
  uint64_t ticket;
  std::vector<BlockId> blocks;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(ticket, blocks);
  }
};

/// The holdings of an engine in one of its pools, each under its ticket.
class MigrationHoldings {
 public:
  explicit MigrationHoldings(BlockPool& pool) : pool_(pool) {}

  /// Sets blocks aside. False when there are not so many.
  bool Reserve(uint64_t ticket, int num_blocks);
  /// Blocks that others hold belong to the holding, too, so that nobody gets them while they are read.
  void Share(uint64_t ticket, std::vector<BlockId> blocks);
  /// Of host blocks: those of swapped-out sequences, states included, become a holding, which is their one owner from
  /// then on: each once, in the order in which they are named first. The sequences keep the ids, as names. Valid until
  /// the next change.
  const std::vector<BlockId>& Hold(uint64_t ticket, std::span<const Sequence> sequences);
  /// The other way: `names[i]` in the sequences becomes block i of the holding; what is left of it is given back.
  /// False, and nothing is changed, when there is no such holding (any more).
  bool Take(uint64_t ticket, std::span<const BlockId> names, std::span<Sequence> sequences);
  /// Unknown tickets are ignored.
  void Release(uint64_t ticket);
  void ReleaseAll();

  /// Null when there is no such holding (any more).
  const MigrationHolding* Find(uint64_t ticket) const;
  const std::vector<MigrationHolding>& all() const { return holdings_; }
  bool empty() const { return holdings_.empty(); }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(holdings_);
  }

 private:
  BlockPool& pool_;
  std::vector<MigrationHolding> holdings_;
};

}  // namespace quire
