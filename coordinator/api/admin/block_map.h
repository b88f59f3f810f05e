#pragma once

#include <string>
#include <vector>

#include "coordinator/core/engine/engine.h"

namespace quire {

/// The owner of each block of a replica's pool at one moment, for the dashboard. The engine's thread copies the tables,
/// which takes 0.1 ms for 100,000 entries; other threads use the copy.
struct BlockMap {
  static constexpr size_t kMostEntries = 400'000;  // most copied table entries; bounds the time of the engine's thread

  struct Table {
    int choice = 0, computed = 0;  // `computed` in tokens
    std::vector<BlockId> blocks;
    std::vector<BlockId> state;  // blocks of the recurrent state; only hybrid models have them
  };
  struct Owner {
    RequestId request = 0;
    std::string name, client;
    std::vector<Table> tables;
  };
  struct Pin {
    uint64_t id = 0;
    std::vector<BlockId> blocks;
  };
  /// A saved recurrent state with which a sequence can begin. `behind`: the cached block that ends where the state was
  /// saved.
  struct KeptState {
    BlockId behind = kNullBlock;
    std::vector<BlockId> blocks;
  };
  int replica = 0, block_size = 0, total = 0, free = 0, host_total = 0, host_used = 0;
  int64_t step = 0;
  std::vector<Owner> owners;
  std::vector<Pin> pins;
  std::vector<Owner> swapped;   // owners whose block tables list host blocks
  std::vector<BlockId> cached;  // free for reuse, with their content
  std::vector<KeptState> kept_states;
  size_t not_listed = 0;  // table entries beyond kMostEntries
};

/// Copies the map of the blocks of the engine's replica. Call it on the engine's thread.
BlockMap TakeBlockMap(const Engine& engine, int replica);
/// Returns the map as JSON. Any thread may call it.
std::string BlockMapText(const BlockMap& map);

}  // namespace quire
