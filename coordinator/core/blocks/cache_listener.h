#pragma once

#include <cstdint>

namespace quire {

struct BlockHash;
struct Sequence;
using CheckpointId = uint64_t;

/// An object whose functions are called when blocks enter or leave the prefix cache. A listener does not influence
/// plans, and must not call the engine.
class CacheListener {
 public:
  virtual ~CacheListener() = default;
  /// Called when lookups begin to find block `index` of the sequence's table. The block's hash is in the sequence's
  /// contents.hashes.
  virtual void OnFindable(const Sequence& sequence, int index) = 0;
  /// Called when the state after the sequence's first `num_tokens` tokens is kept as a checkpoint, so that lookups can
  /// end there.
  virtual void OnStateKept(const Sequence& /*sequence*/, int /*num_tokens*/, CheckpointId /*id*/) {}
  /// Called before the block with this hash is reused.
  virtual void OnRemoved(const BlockHash& /*hash*/) {}
  /// Called when the whole cache has been emptied.
  virtual void OnCleared() {}
};

}  // namespace quire
