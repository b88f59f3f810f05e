#include "coordinator/core/host_swap.h"

#include <algorithm>
#include <vector>

namespace quire {

int DistinctBlocks(std::span<const Sequence> sequences) {
  std::vector<BlockId> ids;
  for (const Sequence& sequence : sequences) {
    ids.insert(ids.end(), sequence.blocks.begin(), sequence.blocks.end());
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return static_cast<int>(ids.size()) - (!ids.empty() && ids.front() == kNullBlock ? 1 : 0);
}

void HostSwap::Out(std::span<Sequence> sequences, StepPlan& plan) {
  std::vector<BlockCopyPair> moves;
  for (Sequence& sequence : sequences) {
    for (const BlockId block : sequence.blocks) {
      if (block == kNullBlock) {
        sequence.host_blocks.push_back(kNullBlock);
        continue;
      }
      const bool may_be_shared = device_.ref_count(block) > 1;
      auto move = may_be_shared ? std::ranges::find(moves, block, &BlockCopyPair::source) : moves.end();
      if (move == moves.end()) {
        move = moves.insert(move, {block, host_.Allocate()});
      } else {
        host_.AddReference(move->destination);
      }
      sequence.host_blocks.push_back(move->destination);
    }
  }
  plan.swap_outs.insert(plan.swap_outs.end(), moves.begin(), moves.end());
  for (Sequence& sequence : sequences) {
    device_.ReleaseAll(sequence.blocks);
    sequence.blocks.clear();
  }
}

void HostSwap::In(std::span<Sequence> sequences, StepPlan& plan) {
  std::vector<BlockCopyPair> moves;
  for (Sequence& sequence : sequences) {
    for (const BlockId host : sequence.host_blocks) {
      if (host == kNullBlock) {
        sequence.blocks.push_back(kNullBlock);
        continue;
      }
      const bool is_shared = host_.ref_count(host) > 1;
      auto move = is_shared ? std::ranges::find(moves, host, &BlockCopyPair::source) : moves.end();
      if (move == moves.end()) {
        move = moves.insert(move, {host, device_.Allocate()});
        fill_.Open(move->destination);
      } else {
        device_.AddReference(move->destination);
      }
      const int before = static_cast<int>(sequence.blocks.size()) * block_size_;
      fill_.Raise(move->destination, std::clamp(sequence.num_computed - before, 0, block_size_));
      sequence.blocks.push_back(move->destination);
    }
  }
  plan.swap_ins.insert(plan.swap_ins.end(), moves.begin(), moves.end());
  for (Sequence& sequence : sequences) {
    for (const BlockId host : sequence.host_blocks) {
      if (host != kNullBlock) host_.Release(host);
    }
    sequence.host_blocks.clear();
    // The new blocks are not findable yet: name all contents anew when the next tokens are computed.
    sequence.contents.Restart();
  }
}

}  // namespace quire
