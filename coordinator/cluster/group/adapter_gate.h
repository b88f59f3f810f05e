#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>

#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// A LoRA adapter that the ranks are to load. `number` follows from its contents; `ticket` is of this order alone.
struct AdapterOrder {
  uint64_t ticket = 0;
  int number = 0;  // above kMostListedAdapters
  std::string name, path, fingerprint;
  uint64_t file_bytes = 0;
};

/// Brings LoRA adapters to a group's ranks while it serves. The engine hears of an adapter when every rank has it, so
/// no plan names it earlier. A rank that cannot read it refuses it for all: the others drop it again. Ranks that
/// replace lost ones are sent all adapters anew, and meanwhile its requests are set aside. If such a rank cannot read
/// one, its requests end with an error. Belongs to the engine's thread.
class AdapterGate {
 public:
  /// `problem` is empty when all ranks have the adapter; `bytes` is what it takes on the rank where it takes most.
  using Done = std::function<void(const std::string& problem, int64_t bytes)>;
  using OnLost = std::function<void(const std::string& problem)>;

  explicit AdapterGate(WorkerGroup& group) : group_(group) {}
  /// Sets a function that hears of each adapter before the engine may use it.
  void set_on_came(std::function<void(const AdapterOrder&)> on_came) { on_came_ = std::move(on_came); }

  /// In a later round calls `done` once. Afterwards calls `on_lost`, at most once, when ranks that replaced lost ones
  /// cannot read the adapter.
  void Load(const AdapterOrder& order, Done done, OnLost on_lost);
  /// In a later round the ranks drop the adapter of this ticket, after all plans so far. Ignores unknown tickets.
  void Unload(uint64_t ticket);
  /// A rank has read an adapter that it was sent, or has failed to.
  void OnReady(Rank rank, const AdapterReady& report);
  /// Called in every round of the engine's loop, before a plan is made.
  void Round(Engine& engine);
  /// The workers are given up: nobody waits for adapters. Workers that come back are sent all of them.
  void Open();

 private:
  struct Held {
    AdapterOrder order;
    Done done;  // null once it was called
    OnLost on_lost;
    std::set<Rank> ready;
    bool told = false, usable = false;  // the ranks were sent it; the engine may use it
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
  EpochId epoch_ = 0;  // epoch of the ranks that were told
  std::list<Held> held_;
  std::map<int, std::string> lost_;  // numbers of adapters that were lost, and why
};

}  // namespace quire
