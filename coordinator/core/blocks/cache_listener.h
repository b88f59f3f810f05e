#pragma once

#include <optional>
#include <span>

#include "coordinator/core/blocks/prefix_cache.h"

namespace quire {

/// A block that the prefix cache can now find.
struct StoredBlock {
  BlockHash hash;                   // of the block's tokens and of all tokens before them
  std::optional<BlockHash> parent;  // hash of the block before it; nothing for a prompt's first block
  std::span<const TokenId> tokens;  // block_size of them; valid during the call
  int adapter;                      // number of the LoRA adapter that computed the block; 0: none
};

/// Hears what enters and leaves the prefix cache. A listener decides nothing: an engine with one plans the same steps.
class CacheListener {
 public:
  virtual ~CacheListener() = default;
  virtual void OnStored(const StoredBlock& block) = 0;
  /// The block with this hash is about to be reused.
  virtual void OnRemoved(const BlockHash& hash) = 0;
  /// Nothing is cached any more.
  virtual void OnCleared() = 0;
};

}  // namespace quire
