#pragma once

#include <span>
#include <vector>

#include "coordinator/core/blocks/block_fill.h"
#include "coordinator/core/blocks/block_pool.h"
#include "coordinator/core/blocks/sequence.h"

namespace quire {

/// Returns the number of distinct device blocks of the sequences, states included. HostSwap::Out takes as many host
/// blocks.
int DistinctBlocks(std::span<const Sequence> sequences);

/// Moves block tables and states between the device pool and the host pool. Blocks that sequences share stay shared.
class HostSwap {
 public:
  HostSwap(BlockPool& device, BlockFill& fill, BlockPool& host, int block_size)
      : device_(device), fill_(fill), host_(host), block_size_(block_size) {}

  /// Moves all blocks of the sequences to the host, which must have DistinctBlocks free blocks.
  void Out(std::span<Sequence> sequences, StepPlan& plan);
  /// Moves the blocks back to the device, which must have as many free blocks as the sequences have on the host.
  void In(std::span<Sequence> sequences, StepPlan& plan);

 private:
  static BlockId Move(BlockId block, const BlockPool& from, BlockPool& to, std::vector<BlockCopyPair>& moves);

  BlockPool& device_;
  BlockFill& fill_;
  BlockPool& host_;
  int block_size_;
};

}  // namespace quire
