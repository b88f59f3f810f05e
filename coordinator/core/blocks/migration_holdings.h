#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/core/blocks/block_pool.h"
#include "coordinator/core/blocks/sequence.h"

namespace quire {

/// Blocks held under a ticket: for a request that migrates to or from another engine, or for copies to or from the
/// store.
struct MigrationHolding {
  uint64_t ticket;
  std::vector<BlockId> blocks;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(ticket, blocks);
  }
};

/// The blocks of one pool that an engine holds for such transfers, indexed by ticket.
class MigrationHoldings {
 public:
  explicit MigrationHoldings(BlockPool& pool) : pool_(pool) {}

  /// Takes num_blocks free blocks into a new holding. Returns false when too few are free.
  bool Reserve(uint64_t ticket, int num_blocks);
  /// Adds num_blocks free blocks to the end of the ticket's holding. The ticket must exist, and there must be enough
  /// free blocks.
  void ReserveMore(uint64_t ticket, int num_blocks);
  /// Makes a holding, under the ticket, of blocks that are held or cached, so that they are not reused while they are
  /// read.
  void Share(uint64_t ticket, std::vector<BlockId> blocks);
  /// For the host pool only: turns the blocks of swapped-out sequences, states included, into a holding that owns them
  /// alone. Returns the blocks, each once, in the order of first mention; the result is valid until the next change.
  /// The sequences keep the ids as names for Take.
  const std::vector<BlockId>& Hold(uint64_t ticket, std::span<const Sequence> sequences);
  /// Reverses Hold: replaces `names[i]` in the sequences by block i of the holding, and releases the holding's other
  /// blocks. Returns false and changes nothing when the ticket is unknown or has too few blocks.
  bool Take(uint64_t ticket, std::span<const BlockId> names, std::span<Sequence> sequences);
  /// Releases the ticket's blocks; ignores unknown tickets.
  void Release(uint64_t ticket);
  void ReleaseAll();

  /// Returns the ticket's holding; null when the ticket is unknown.
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
