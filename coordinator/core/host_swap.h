#pragma once

#include <span>
#include <vector>

#include "coordinator/core/block_fill.h"
#include "coordinator/core/block_pool.h"
#include "coordinator/core/sequence.h"

namespace quire {

/// Distinct device blocks that the sequences hold, those of states counted in: as many as swapping them out takes on
/// the host.
int DistinctBlocks(std::span<const Sequence> sequences);

/// Moves whole block tables and states between the device's pool and the host's. Blocks that sequences share stay
/// shared.
class HostSwap {
 public:
  HostSwap(BlockPool& device, BlockFill& fill, BlockPool& host, int block_size)
      : device_(device), fill_(fill), host_(host), block_size_(block_size) {}

  /// All blocks of the sequences go to the host, which must have DistinctBlocks free.
  void Out(std::span<Sequence> sequences, StepPlan& plan);
  /// The way back. The device must have as many free.
  void In(std::span<Sequence> sequences, StepPlan& plan);

 private:
  static BlockId Move(BlockId block, const BlockPool& from, BlockPool& to, std::vector<BlockCopyPair>& moves);

  BlockPool& device_;
  BlockFill& fill_;
  BlockPool& host_;
  int block_size_;
};

}  // namespace quire
