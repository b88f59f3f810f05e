#pragma once

#include <cstddef>
#include <vector>

#include "coordinator/core/blocks/prefix_cache.h"
#include "coordinator/core/blocks/prefix_origin.h"

namespace quire {

/// A file has the keys and values of one block, the recurrent state of a sequence after that block, or a pin
/// (StoredPins).
enum class StoredKind { kBlock, kState, kPin };

/// The name of a full block's content: of its own tokens and all tokens before them.
struct StoredName {
  BlockHash hash, parent;  // parent: the hash of the previous block, or the root of the chain
  std::vector<TokenId> tokens;
  StoredKind kind = StoredKind::kBlock;
  PrefixOrigin origin{};  // the chain's origin, if known and `parent` is the root; an export needs it
};

/// A block with its keys and values, or a state, in the layout of a worker group that has only one rank.
struct StoredBlock {
  StoredName name;
  std::vector<std::byte> data;
};

}  // namespace quire
