#pragma once

#include <string>
#include <vector>

#include "coordinator/core/engine.h"

namespace quire {

/// Who has which blocks of a pool at one moment: what a picture of all blocks is drawn from. Tables are copied whole on
/// the engine's thread, which costs a tenth of a millisecond for 100,000 entries; everything else is done with the
/// copy.
struct BlockMap {
  static constexpr size_t kMostEntries = 400'000;  // of tables, so that no number of sequences holds the engine up

  struct Table {
    int choice = 0, computed = 0;  // tokens
    std::vector<BlockId> blocks;
    std::vector<BlockId> state;  // of models that have one
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
  /// A state that sequences can begin with, behind a cached block.
  struct KeptState {
    BlockId behind = kNullBlock;
    std::vector<BlockId> blocks;
  };
  int replica = 0, block_size = 0, total = 0, free = 0, host_total = 0, host_used = 0;
  int64_t step = 0;
  std::vector<Owner> owners;
  std::vector<Pin> pins;
  std::vector<Owner> swapped;   // tables of host blocks
  std::vector<BlockId> cached;  // nobody holds them, and their content is kept
  std::vector<KeptState> kept_states;
  size_t not_listed = 0;  // entries of tables beyond kMostEntries
};

/// On the engine's thread.
BlockMap TakeBlockMap(const Engine& engine, int replica);
/// From any thread.
std::string BlockMapText(const BlockMap& map);

}  // namespace quire
