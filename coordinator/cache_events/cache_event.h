#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/blocks/cache_listener.h"
#include "coordinator/core/blocks/sequence.h"

namespace quire {

/// A change of a replica's prefix cache, for routers outside of Quire. 64 bits of its hash identify a block.
struct CacheEvent {
  enum class Kind { kStored, kRemoved, kCleared };
  Kind kind;
  std::vector<uint64_t> hashes;    // kStored: blocks that follow each other; kRemoved: blocks in any order
  std::optional<uint64_t> parent;  // kStored: the block before the first one; nullopt: the first block begins a prompt
  std::vector<TokenId> tokens;     // kStored: tokens of all the blocks
  int adapter = 0;                 // kStored: number of the LoRA adapter; 0: none
};

/// Gathers the changes of a prefix cache. Blocks that are stored one after another become one event, and so do blocks
/// that are removed one after another. Used on the engine's thread only.
class CacheEventLog : public CacheListener {
 public:
  explicit CacheEventLog(int block_size) : block_size_(block_size) {}

  void OnFindable(const Sequence& sequence, int index) override;
  void OnRemoved(const BlockHash& hash) override;
  void OnCleared() override;

  /// Returns the events since the last call, in order.
  std::vector<CacheEvent> Take() { return std::exchange(events_, {}); }

 private:
  const int block_size_;  // tokens of a block
  std::vector<CacheEvent> events_;
};

/// The replica whose events a batch has.
struct CacheEventSource {
  int replica = 0;
  int block_size = 0;                 // tokens of a block
  std::vector<std::string> adapters;  // names; adapter 1 is the first
  std::map<int, std::string> later_adapters = {};  // adapters loaded while serving: number -> name

  /// Returns an adapter's name; null when none is known.
  const std::string* NameOf(int adapter) const;
};

/// Returns the batch in the MessagePack form that vLLM publishes: [seconds since 1970, events, replica], each event a
/// map with its "type". Pools of all backends are named "GPU", as routers call the memory that attention reads.
std::string EncodeCacheEvents(const std::vector<CacheEvent>& events, double unix_seconds,
                              const CacheEventSource& source);

}  // namespace quire
