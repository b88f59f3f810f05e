#include "coordinator/core/blocks/host_swap.h"

#include <algorithm>
#include <vector>

namespace quire {

int DistinctBlocks(std::span<const Sequence> sequences) {
  std::vector<BlockId> ids;
  for (const Sequence& sequence : sequences) {
    ids.insert(ids.end(), sequence.blocks.begin(), sequence.blocks.end());
    ids.insert(ids.end(), sequence.state.begin(), sequence.state.end());
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return static_cast<int>(ids.size()) - (!ids.empty() && ids.front() == kNullBlock ? 1 : 0);
}

/// Returns the block of `to` that gets the content of `block` of `from`. Sequences that share the block in `from` also
/// share the block in `to`.
BlockId HostSwap::Move(BlockId block, const BlockPool& from, BlockPool& to, std::vector<BlockCopyPair>& moves) {
  const bool may_be_shared = from.ref_count(block) > 1;
  const auto move = may_be_shared ? std::ranges::find(moves, block, &BlockCopyPair::source) : moves.end();
  if (move == moves.end()) return moves.emplace_back(BlockCopyPair{block, to.Allocate()}).destination;
  to.AddReference(move->destination);
  return move->destination;
}

void HostSwap::Out(std::span<Sequence> sequences, StepPlan& plan) {
  std::vector<BlockCopyPair> moves;
  for (Sequence& sequence : sequences) {
    for (const BlockId block : sequence.blocks)
      sequence.host_blocks.push_back(block == kNullBlock ? kNullBlock : Move(block, device_, host_, moves));
    for (const BlockId block : sequence.state) sequence.host_state.push_back(Move(block, device_, host_, moves));
  }
  plan.swap_outs.insert(plan.swap_outs.end(), moves.begin(), moves.end());
  for (Sequence& sequence : sequences) {
    device_.ReleaseAll(sequence.blocks);
    sequence.blocks.clear();
    device_.ReleaseAll(sequence.state);
    sequence.state.clear();
  }
}

void HostSwap::In(std::span<Sequence> sequences, StepPlan& plan) {
  std::vector<BlockCopyPair> moves;
  const auto move_in = [&](BlockId host) {
    const size_t before = moves.size();
    const BlockId block = Move(host, host_, device_, moves);
    if (moves.size() > before) fill_.Open(block);
    return block;
  };
  for (Sequence& sequence : sequences) {
    for (const BlockId host : sequence.host_blocks) {
      const int before = static_cast<int>(sequence.blocks.size()) * block_size_;
      sequence.blocks.push_back(host == kNullBlock ? kNullBlock : move_in(host));
      if (host == kNullBlock) continue;
      fill_.Raise(sequence.blocks.back(), std::clamp(sequence.num_computed - before, 0, block_size_));
    }
    for (const BlockId host : sequence.host_state) sequence.state.push_back(move_in(host));
  }
  plan.swap_ins.insert(plan.swap_ins.end(), moves.begin(), moves.end());
  for (Sequence& sequence : sequences) {
    for (const BlockId host : sequence.host_blocks) {
      if (host != kNullBlock) host_.Release(host);
    }
    for (const BlockId host : sequence.host_state) host_.Release(host);
    sequence.host_blocks.clear();
    sequence.host_state.clear();
    // The new blocks are not in the prefix cache. Their contents get ids again when the next tokens are computed.
    sequence.contents.Restart();
  }
}

}  // namespace quire
