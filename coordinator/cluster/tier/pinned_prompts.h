#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/tier/kv_gate.h"
#include "coordinator/core/engine/engine.h"
#include "coordinator/kv_disk/kept_pins.h"

namespace quire {

/// The pins of one replica under names, which outlive the engine: with new workers, and in another process, their
/// blocks come back from the store and are pinned again. A name ends when it is unpinned, when the cache is flushed by
/// an operator, or by its time. Belongs to the engine's thread.
class PinnedPrompts {
 public:
  /// `replica` of `num_replicas`: a kept pin of a replica that is no more goes to another one.
  PinnedPrompts(KvStore& store, Engine& engine, int replica, int num_replicas)
      : store_(store), engine_(engine), replica_(replica), num_replicas_(num_replicas) {}

  /// Pins the cached leading blocks of the prompt for `seconds`, under its name, and keeps the name. A pin of the same
  /// name ends. Returns the engine's id; nothing when nothing is cached or too much is pinned.
  std::optional<uint64_t> Pin(StoredPin pin, double seconds, double now);
  /// Ends the pin and forgets its name. False when there is none.
  bool Unpin(uint64_t id);
  bool Unpin(const std::string& name);
  /// Forgets all names, whose pins have ended.
  void Forget();
  /// Returns the name of a pin; empty when it has none.
  std::string NameOf(uint64_t id) const;

  /// Brings the blocks of kept pins back, and pins them. Called when the workers are new.
  void Restore(KvGate& gate, double now);
  /// Called in every round of the engine's loop. Keeps the pinned blocks' files from growing old.
  void Round(double now);

 private:
  std::optional<uint64_t> PinNow(const StoredPin& pin, double seconds, double now);

  KvStore& store_;
  Engine& engine_;
  const int replica_, num_replicas_;
  std::map<std::string, uint64_t> ids_;  // the engine's ids of the names' pins, which may have ended
  double next_use_ = 0;
};

}  // namespace quire
