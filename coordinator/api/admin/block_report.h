#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/cluster/replicas/replica_snapshot.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The non-empty blocks of the device pool at one moment, one by one: blocks in use first, then cached blocks.
struct BlockList {
  static constexpr size_t kMostBlocks = 10'000;  // the most listed blocks; bounds the engine's pause

  /// One owner of a block: a sequence's block table, a sequence's recurrent state, or a pin.
  struct Owner {
    RequestId request = 0;  // 0: the owner is a pin
    int choice = 0;
    size_t index = 0;  // position in the block table, or among the state's blocks
    uint64_t pin = 0;
    bool is_state = false;
  };
  struct Block {
    BlockId id = 0;
    int ref_count = 0, filled = 0;  // filled: in tokens
    std::optional<BlockHash> hash;
    int64_t age_steps = 0;
    bool is_state = false;             // part of a recurrent state; otherwise keys and values
    BlockId kept_behind = kNullBlock;  // the cached block that ends where this block's state was saved
  };
  PoolCounts device, host;
  int block_size = 0, blocks_per_state = 0;
  int64_t held_states = 0;  // blocks in use that belong to states
  int64_t filled = 0;       // tokens in all blocks in use
  int64_t not_listed = 0;   // number of blocks beyond kMostBlocks
  std::vector<Block> blocks;
  std::vector<std::pair<BlockId, Owner>> owners;       // a block's owners appear in this order
  std::vector<std::pair<RequestId, int>> swapped_out;  // request, its number of host blocks
};

/// Copies the list of the engine's blocks. Call it on the engine's thread.
BlockList TakeBlocks(const Engine& engine);
/// Returns the list as JSON. Any thread may call it.
std::string BlocksText(const BlockList& list);

}  // namespace quire
