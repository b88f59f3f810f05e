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

/// A change of a replica's prefix cache, for routers outside of Quire. A block is identified by 64 bits of its hash.
struct CacheEvent {
  enum class Kind { kStored, kRemoved, kCleared };
  Kind kind;
  std::vector<uint64_t> hashes;    // kStored: consecutive blocks, in order; kRemoved: blocks in any order
  std::optional<uint64_t> parent;  // kStored: the block before the first one; nullopt: the first block begins a prompt
  std::vector<TokenId> tokens;     // kStored: tokens of all these blocks
  int adapter = 0;                 // kStored: number of the LoRA adapter; 0: none
};

/// Collects the changes of a prefix cache as events. Consecutive stored blocks become one event, and so do consecutive
/// removed blocks. Clearing the cache drops the events before it. Only the engine's thread may use this class.
class CacheEventLog : public CacheListener {
 public:
  explicit CacheEventLog(int block_size) : block_size_(block_size) {}

  void OnFindable(const Sequence& sequence, int index) override;
  void OnRemoved(const BlockHash& hash) override;
  void OnCleared() override;

  /// Returns the events since the last call, in order.
  std::vector<CacheEvent> Take() { return std::exchange(events_, {}); }

 private:
  const int block_size_;  // tokens per block
  std::vector<CacheEvent> events_;
};

/// Names the replica of a batch's events, and describes its blocks and adapters.
struct CacheEventSource {
  int replica = 0;
  int block_size = 0;                 // tokens per block
  std::vector<std::string> adapters;  // names; number 1 is the first adapter
  std::map<int, std::string> later_adapters = {};  // names of adapters loaded while the server runs, by number

  /// Returns an adapter's name; null when the name is not known.
  const std::string* NameOf(int adapter) const;
};

/// Returns the batch in the MessagePack form that vLLM publishes: [seconds since 1970, events, replica], where each
/// event is a map with its "type". Events name the blocks' memory "GPU" on all backends, because routers use this name
/// for the memory that attention reads.
std::string EncodeCacheEvents(const std::vector<CacheEvent>& events, double unix_seconds,
                              const CacheEventSource& source);

}  // namespace quire
