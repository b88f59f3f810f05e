#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "coordinator/cluster/group/arrival.h"
#include "coordinator/cluster/tier/fetch_pace.h"
#include "coordinator/cluster/tier/gate_turns.h"
#include "coordinator/cluster/tier/group_blocks.h"
#include "coordinator/cluster/tier/stored_gain.h"
#include "coordinator/core/engine/engine.h"
#include "coordinator/kv_disk/kv_store.h"

namespace quire {

/// Holds a call while stored blocks of its prompts come back to the workers. A call waits only if the store has more of
/// a prompt than the workers have cached. It does not wait if measurements show that computing the blocks takes less
/// time than bringing them back. After kPatienceSeconds a call enters the engine in any case, because the store may not
/// answer. Blocks of only one prompt are brought back at a time. Only the engine's thread may use it.
class KvGate {
 public:
  static constexpr double kPatienceSeconds = 5, kBringSeconds = 60;

  KvGate(KvStore& store, GroupBlocks& group, std::function<void()> wake);
  ~KvGate();

  /// Takes a call. Calls `enter` immediately or in a later round, but never after the arrival has been abandoned. The
  /// clients whose calls wait take turns.
  void Pass(const std::string& client, Arrival arrival, std::function<void(Arrival)> enter, Engine& engine, double now);
  /// Brings all stored blocks of a prompt back without a call, however fast computing is. Calls `done` in a later
  /// round, at the latest after kBringSeconds.
  void Bring(ArrivalPrompt prompt, std::function<void()> done, double now);
  /// Called in every round of the engine's loop. `now`: seconds on the engine's clock.
  void Round(Engine& engine, double now);
  /// True when the report is about a transfer of this gate.
  bool OnReport(Rank rank, const BlocksReport& report);
  /// Gives up transfers of blocks. Called when the ranks were replaced.
  void Forget();
  /// Lets all held calls enter the engine, because the workers have been given up.
  void Open();

 private:
  struct Held {
    Arrival arrival;
    std::function<void(Arrival)> enter;
    std::vector<ArrivalPrompt> prompts;  // prompts for which the store may still have blocks
    double deadline = 0;
    uint64_t number = 0;  // number of the call, counted over all calls that were held
    std::string client;
    bool always = false;  // true: brings blocks back even if computing is faster
  };
  /// The transfer of a prompt's blocks from the store, or of the state after its prefix.
  struct Fetch {
    uint64_t ticket = 0;
    StoredKind kind = StoredKind::kBlock;
    ArrivalPrompt prompt;  // the prompt's tokens up to the end of the last block that comes, or up to the state
    uint64_t held = 0;     // number of the call that waits for the transfer
    int prefix = 0;        // number of leading blocks that are cached already
    double begin_seconds = 0;
    bool read = false;  // the store has answered
    std::shared_ptr<KvStore::Found> data;
    std::vector<std::string> endpoints;  // the ranks' endpoints; empty text: the rank is not ready
    int ranks_ended = 0;
    bool announced = false, sent = false, failed = false;
  };
  /// Carries the store's answer from the store's thread to the engine's thread.
  struct Mailbox {
    std::mutex mutex;  // guards the other members
    std::function<void()> wake;
    std::optional<std::pair<uint64_t, KvStore::Found>> found;
  };
  StoredGain GainOf(const ArrivalPrompt& prompt, const Engine& engine) const;
  bool IsWorthwhile(const StoredGain& gain, const Engine& engine, double now) const;
  bool Begin(Held& held, Engine& engine, double now);
  void Advance(Engine&engine, double now), End(Engine&engine, double now);
  void TakeFound();
  void Announce(Engine& engine);
  bool CanGoOn(const Fetch& fetch, const Engine& engine) const;
  void LetThrough(std::list<Held>::iterator held);

  KvStore& store_;
  GroupBlocks& group_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::list<Held> held_;  // ordered by arrival
  GateTurns turns_;
  std::optional<Fetch> fetch_;
  uint64_t last_number_ = 0;
  bool reading_ = false;  // the store has not answered an order yet
  FetchPace block_pace_, state_pace_;
};

}  // namespace quire
