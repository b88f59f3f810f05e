#include "coordinator/core/blocks/migration_holdings.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

bool MigrationHoldings::Reserve(uint64_t ticket, int num_blocks) {
  if (num_blocks > pool_.num_free()) return false;
  MigrationHolding holding{ticket, {}};
  while (static_cast<int>(holding.blocks.size()) < num_blocks) holding.blocks.push_back(pool_.Allocate());
  holdings_.push_back(std::move(holding));
  return true;
}

void MigrationHoldings::ReserveMore(uint64_t ticket, int num_blocks) {
  const auto holding = std::ranges::find(holdings_, ticket, &MigrationHolding::ticket);
  QUIRE_CHECK(holding != holdings_.end() && num_blocks <= pool_.num_free(), "no room for {} more blocks", num_blocks);
  for (int i = 0; i < num_blocks; ++i) holding->blocks.push_back(pool_.Allocate());
}

void MigrationHoldings::Share(uint64_t ticket, std::vector<BlockId> blocks) {
  for (const BlockId block : blocks) pool_.AddReference(block);
  holdings_.push_back({ticket, std::move(blocks)});
}

const std::vector<BlockId>& MigrationHoldings::Hold(uint64_t ticket, std::span<const Sequence> sequences) {
  MigrationHolding holding{ticket, {}};
  const auto hold = [&](BlockId block) {
    if (block == kNullBlock) return;
    if (std::ranges::find(holding.blocks, block) == holding.blocks.end()) {
      holding.blocks.push_back(block);  // the holding takes over the first owner's reference
    } else {
      pool_.Release(block);
    }
  };
  for (const Sequence& sequence : sequences) {
    std::ranges::for_each(sequence.host_blocks, hold);
    std::ranges::for_each(sequence.host_state, hold);
  }
  holdings_.push_back(std::move(holding));
  return holdings_.back().blocks;
}

bool MigrationHoldings::Take(uint64_t ticket, std::span<const BlockId> names, std::span<Sequence> sequences) {
  const auto holding = std::ranges::find(holdings_, ticket, &MigrationHolding::ticket);
  if (holding == holdings_.end() || holding->blocks.size() < names.size()) return false;
  std::vector<bool> taken(holding->blocks.size(), false);
  const auto take = [&](BlockId& block) {
    if (block == kNullBlock) return;
    const auto index = static_cast<size_t>(std::ranges::find(names, block) - names.begin());
    QUIRE_CHECK(index < names.size(), "host block {} did not come along", block);
    block = holding->blocks[index];
    if (taken[index]) pool_.AddReference(block);
    taken[index] = true;
  };
  for (Sequence& sequence : sequences) {
    std::ranges::for_each(sequence.host_blocks, take);
    std::ranges::for_each(sequence.host_state, take);
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) pool_.Release(holding->blocks[i]);
  }
  holdings_.erase(holding);
  return true;
}

void MigrationHoldings::Release(uint64_t ticket) {
  std::erase_if(holdings_, [&](const MigrationHolding& holding) {
    if (holding.ticket != ticket) return false;
    pool_.ReleaseAll(holding.blocks);
    return true;
  });
}

void MigrationHoldings::ReleaseAll() {
  while (!holdings_.empty()) Release(holdings_.back().ticket);
}

const MigrationHolding* MigrationHoldings::Find(uint64_t ticket) const {
  const auto holding = std::ranges::find(holdings_, ticket, &MigrationHolding::ticket);
  return holding == holdings_.end() ? nullptr : &*holding;
}

}  // namespace quire
