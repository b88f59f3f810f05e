#pragma once

#include <cstdint>

namespace quire {

struct BlockHash;
struct Sequence;
using CheckpointId = uint64_t;

/// Hears what enters and leaves the prefix cache. A listener decides nothing: an engine with one plans the same steps.
/// It must not call the engine.
class CacheListener {
 public:
  virtual ~CacheListener() = default;
  /// Block `index` of the sequence's table is full, and lookups now find it. contents.hashes has its hash.
  virtual void OnFindable(const Sequence& sequence, int index) = 0;
  /// The state after the sequence's first `num_tokens` tokens is kept, so lookups can end there.
  virtual void OnStateKept(const Sequence& /*sequence*/, int /*num_tokens*/, CheckpointId /*id*/) {}
  /// Called before the block with this hash is reused.
  virtual void OnRemoved(const BlockHash& /*hash*/) {}
  /// Nothing is cached any more.
  virtual void OnCleared() {}
};

}  // namespace quire
