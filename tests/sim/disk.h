#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "tests/sim/scenario.h"
#include "tests/sim/sealed_files.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

/// A store of blocks outside the engine, like the disk tier. The store is slow, loses blocks on their way back, or
/// returns fewer blocks than requested; its files may be torn or lost, or have wrong contents (SealedFiles). It
/// survives the loss of workers. Every query that reads a returned block checks the block's contents.
class Disk : public CacheListener {
 public:
  /// Decides from the seed whether this run has a store: half of the runs have one.
  Disk(uint64_t seed, Engine& engine, std::vector<SimWorker>& workers);

  void OnFindable(const Sequence& sequence, int index) override;
  void OnStateKept(const Sequence& sequence, int num_tokens, CheckpointId id) override;
  /// Must be called after every event. `num_sent`: the number of plans that were sent and have not run on the workers.
  /// `arrived`: all requests that have arrived.
  void Round(size_t num_sent, std::span<const Arrival> arrived);
  void PlanRan();
  /// Forgets all blocks and tickets, because the worker group was lost.
  void GroupLost();
  /// Ends the reads and writes that have begun.
  void End();

  int64_t num_stored = 0, num_returned = 0;
  int64_t num_stored_states = 0, num_returned_states = 0;
  int64_t num_lies() const { return files_.num_lies; }

 private:
  struct Name {
    StoredName stored;
    std::vector<BlockId> blocks;  // the sequence's blocks up to the block of this name
    std::vector<BlockHash> hashes;
  };
  struct Saving {
    uint64_t ticket;
    std::vector<BlockId> blocks;
    std::vector<Name> names;
    size_t plans_before;  // number of plans that the workers run before they copy
  };
  struct SavingState {
    uint64_t ticket;
    std::vector<BlockId> blocks;
    StoredName name;
    size_t plans_before;
  };
  struct Fetch {
    uint64_t ticket;
    const Arrival* of;
    int prefix, count;    // count 0: the state after the prefix
    size_t plans_before;  // number of plans that may still use the blocks; the workers run them before they write
  };
  StoredName NameOf(const Sequence& sequence, size_t index, StoredKind kind) const;
  StoredName NameOf(const Arrival& arrival, int num_blocks, StoredKind kind) const;
  void ToNext(const Arrival& arrival, int index, StoredName& name) const;
  std::vector<KvValue> ReadAlike(BlockId block) const;
  void BeginToSave(size_t num_sent);
  void BeginToSaveState(size_t num_sent);
  void SaveState();
  void BeginToFetchState(size_t num_sent, const Arrival& some);
  void EndFetchOfState(const Fetch& fetch, std::span<const BlockId> blocks);
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
  std::deque<std::pair<CheckpointId, StoredName>> fresh_states_;
  std::optional<Saving> saving_;
  std::optional<SavingState> saving_state_;
  std::optional<Fetch> fetch_;
  SealedFiles files_;
  uint64_t last_ticket_ = uint64_t{1} << 40;
};

}  // namespace quire::sim
