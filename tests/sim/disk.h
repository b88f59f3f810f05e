#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "tests/sim/scenario.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

/// A store of blocks beside the engine, like the disk tier. The store is slow, loses blocks on their way back, or
/// returns fewer blocks than it was asked for. It survives the loss of workers. Every query that reads a returned block
/// checks its contents.
class Disk : public CacheListener {
 public:
  /// Decides from the seed whether the life has a store: half of the lives have one.
  Disk(uint64_t seed, Engine& engine, std::vector<SimWorker>& workers);

  void OnFindable(const Sequence& sequence, int index) override;
  /// Called after every event. num_sent: plans that the workers have not run yet; arrived: requests so far.
  void Round(size_t num_sent, std::span<const Arrival> arrived);
  void PlanRan();
  /// Forgets all blocks and tickets, because the worker group was lost.
  void GroupLost();
  /// Ends the reads and writes that are under way.
  void End();

  int64_t num_stored = 0, num_returned = 0;

 private:
  struct Name {
    BlockHash hash, parent;
    std::vector<TokenId> tokens;
    std::vector<BlockId> blocks;  // the sequence's blocks up to this one
    std::vector<BlockHash> hashes;
  };
  struct Saving {
    uint64_t ticket;
    std::vector<BlockId> blocks;
    std::vector<Name> names;
    size_t plans_before;  // plans that the workers run before they copy
  };
  struct Fetch {
    uint64_t ticket;
    const Arrival* of;
    int prefix, count;
    size_t plans_before;  // plans that may still use the blocks: the workers run them before they write
  };
  using Key = std::pair<uint64_t, uint64_t>;
  static Key KeyOf(const BlockHash& hash) { return {hash.low, hash.high}; }
  void BeginToSave(size_t num_sent);
  void Save();
  void BeginToFetch(size_t num_sent, std::span<const Arrival> arrived);
  void EndFetch();
  bool IsClear(const Fetch& fetch, std::span<const TokenId> tokens) const;
  std::vector<TokenId> TokensOf(const Fetch& fetch, int count) const;

  test::Random random_;
  bool on_;
  Engine& engine_;
  std::vector<SimWorker>& workers_;
  size_t block_size_;
  std::deque<std::pair<BlockId, Name>> fresh_;
  std::optional<Saving> saving_;
  std::optional<Fetch> fetch_;
  std::map<Key, std::vector<KvValue>> stored_;
  uint64_t last_ticket_ = uint64_t{1} << 40;
};

}  // namespace quire::sim
