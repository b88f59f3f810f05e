#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/core/block_pool.h"
#include "coordinator/core/sequence.h"

namespace quire {

/// Host blocks that are set aside for a request on its way from or to another engine.
struct MigrationHolding {
  uint64_t ticket;
  std::vector<BlockId> blocks;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(ticket, blocks);
  }
};

/// The holdings of an engine, each under its ticket. A holding is the one owner of its blocks in the host's pool.
class MigrationHoldings {
 public:
  explicit MigrationHoldings(BlockPool& host) : host_(host) {}

  /// Sets blocks aside. False when there are not so many.
  bool Reserve(uint64_t ticket, int num_blocks);
  /// The host blocks of swapped-out sequences, states included, become a holding: each once, in the order in which they
  /// are named first.
  /// The sequences keep the ids, as names. Valid until the next change.
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

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(holdings_);
  }

 private:
  BlockPool& host_;
  std::vector<MigrationHolding> holdings_;
};

}  // namespace quire
