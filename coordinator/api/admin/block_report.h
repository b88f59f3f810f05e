#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/cluster/replicas/replica_snapshot.h"
#include "coordinator/core/engine.h"

namespace quire {

/// The blocks of the device pool that hold something, one by one, at one moment: those in use first, then cached ones.
struct BlockList {
  static constexpr size_t kMostBlocks = 10'000;  // listed, because the engine waits meanwhile

  /// An entry of a sequence's table or of its state, or a pin.
  struct Owner {
    RequestId request = 0;  // 0: a pin
    int choice = 0;
    size_t index = 0;  // in the table, or in the state
    uint64_t pin = 0;
    bool is_state = false;
  };
  struct Block {
    BlockId id = 0;
    int ref_count = 0, filled = 0;  // filled: tokens
    std::optional<BlockHash> hash;
    int64_t age_steps = 0;
    bool is_state = false;             // else keys and values
    BlockId kept_behind = kNullBlock;  // part of the state that is kept behind that block
  };
  PoolCounts device, host;
  int block_size = 0, blocks_per_state = 0;
  int64_t held_states = 0;  // blocks in use that are part of states
  int64_t filled = 0;       // tokens in blocks in use
  int64_t not_listed = 0;   // blocks beyond kMostBlocks
  std::vector<Block> blocks;
  std::vector<std::pair<BlockId, Owner>> owners;       // in the order in which a block's are told
  std::vector<std::pair<RequestId, int>> swapped_out;  // and how many blocks each has on the host
};

/// On the engine's thread.
BlockList TakeBlocks(const Engine& engine);
/// As JSON. From any thread.
std::string BlocksText(const BlockList& list);

}  // namespace quire
