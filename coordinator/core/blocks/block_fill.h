#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Counts the computed tokens in each device block, and remembers the step that gave the block its content. Only
/// reports and checks use these numbers; plans do not.
class BlockFill {
 public:
  explicit BlockFill(int num_blocks) { Resize(num_blocks); }

  void Resize(int num_blocks) { uses_.assign(static_cast<size_t>(num_blocks), {}); }
  /// Sets the number of the step being planned.
  void SetStep(int64_t step) { now_ = step; }
  /// Records that the step being planned gives the block new content, none of which is computed yet.
  void Open(BlockId block) { At(block) = {0, now_}; }
  /// Records that at least `tokens` leading tokens of the block are computed.
  void Raise(BlockId block, int tokens) { At(block).tokens = std::max(At(block).tokens, tokens); }

  /// Returns the number of computed tokens in the block.
  int tokens(BlockId block) const { return uses_[static_cast<size_t>(block)].tokens; }
  /// Returns the number of steps since the block got its present content.
  int64_t age(BlockId block) const { return now_ - uses_[static_cast<size_t>(block)].since; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(uses_, now_);
  }

 private:
  struct Use {
    int tokens = 0;
    int64_t since = 0;  // step that gave the block its content
  };
  Use& At(BlockId block) { return uses_[static_cast<size_t>(block)]; }

  std::vector<Use> uses_;  // indexed by device block
  int64_t now_ = 0;
};

}  // namespace quire
