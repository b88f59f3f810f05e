#pragma once

#include <cstddef>
#include <vector>

#include "coordinator/core/blocks/prefix_cache.h"

namespace quire {

/// A file has the keys and values of one block, or the recurrent state of a sequence after that block.
enum class StoredKind { kBlock, kState };

/// The name of a full block's content: its own tokens, and all content before them.
struct StoredName {
  BlockHash hash, parent;  // parent: the hash of the block before, or the root of the chain
  std::vector<TokenId> tokens;
  StoredKind kind = StoredKind::kBlock;
};

/// A block with its keys and values, or a state, in the layout of a group of one rank.
struct StoredBlock {
  StoredName name;
  std::vector<std::byte> data;
};

}  // namespace quire
