#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>

#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// An order to the ranks to load a LoRA adapter. `number` follows from the adapter's contents; `ticket` is unique to
/// this order.
struct AdapterOrder {
  uint64_t ticket = 0;
  int number = 0;  // above kMostListedAdapters
  std::string name, path, fingerprint;
  uint64_t file_bytes = 0;
};

/// Loads LoRA adapters on a group's ranks while the group serves. The engine may use an adapter only when every rank
/// has loaded the adapter, so no earlier plan names the adapter. If a rank cannot read an adapter, all ranks drop it
/// again. Ranks that replace lost ranks load all adapters again; meanwhile the engine sets requests with adapters
/// aside. If such a rank cannot read an adapter, the adapter's requests end with an error. Belongs to the engine's
/// thread.
class AdapterGate {
 public:
  /// Called when a load has ended. `problem`: the reason why the adapter is not loaded; empty when all ranks have it.
  /// `bytes`: the adapter's memory on the rank where the adapter takes the most.
  using Done = std::function<void(const std::string& problem, int64_t bytes)>;
  using OnLost = std::function<void(const std::string& problem)>;

  explicit AdapterGate(WorkerGroup& group) : group_(group) {}
  /// Sets a function that is called for each loaded adapter before the engine may use the adapter.
  void set_on_came(std::function<void(const AdapterOrder&)> on_came) { on_came_ = std::move(on_came); }

  /// Orders all ranks to load the adapter. Calls `done` once, in a later round. After that, calls `on_lost`, at most
  /// once, if ranks that have replaced lost ranks cannot read the adapter.
  void Load(const AdapterOrder& order, Done done, OnLost on_lost);
  /// Makes the ranks drop the adapter with this ticket. The ranks are told in a later round, and run all plans that
  /// were sent before. Ignores unknown tickets.
  void Unload(uint64_t ticket);
  /// Takes a rank's report that it has read an adapter, or cannot read it.
  void OnReady(Rank rank, const AdapterReady& report);
  /// Called in every round of the engine's loop, before a plan is made.
  void Round(Engine& engine);
  /// Called when the workers are given up. Ends every waiting load as if it had succeeded (`done` with "" and 0). Later
  /// workers are told to load all adapters.
  void Open();

 private:
  struct Held {
    AdapterOrder order;
    Done done;  // null once it was called
    OnLost on_lost;
    std::set<Rank> ready;
    bool told = false, usable = false;  // the ranks were sent the adapter; the engine may use it
    bool leaving = false;               // Unload was called
    uint64_t bytes = 0;
    std::string problem;  // a rank's error
  };
  void Tell(const Held& held, bool wanted);
  void Refuse(Held& held, Engine& engine);
  bool Advance(Held& held, Engine& engine);
  void EndLost(Engine& engine) const;

  WorkerGroup& group_;
  std::function<void(const AdapterOrder&)> on_came_ = [](const AdapterOrder&) {};
  EpochId epoch_ = 0;  // epoch of the ranks that were sent the adapters
  std::list<Held> held_;
  std::map<int, std::string> lost_;  // numbers of adapters that were lost, and why
};

}  // namespace quire
