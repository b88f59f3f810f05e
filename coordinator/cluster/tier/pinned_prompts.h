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

/// The pins of one replica under names that outlive the engine: with new workers, and in another process, the pins'
/// blocks come back from the store and are pinned again. A name ends when it is unpinned, when an operator flushes the
/// cache, or when its time is over. Only the engine's thread may use it.
class PinnedPrompts {
 public:
  /// `replica`: the index of this replica among the model's num_replicas replicas. A stored pin has the index of a
  /// replica, which may no longer exist. The pin then belongs to the replica with that index modulo num_replicas.
  PinnedPrompts(KvStore& store, Engine& engine, int replica, int num_replicas)
      : store_(store), engine_(engine), replica_(replica), num_replicas_(num_replicas) {}

  /// Pins the cached leading blocks of the prompt for `seconds` from `now` on (engine's clock) under its name, and
  /// stores the name. An earlier pin of the name ends. Returns the engine's id of the pin; nullopt when no block is
  /// cached or too much is pinned.
  std::optional<uint64_t> Pin(StoredPin pin, double seconds, double now);
  /// Ends the pin and forgets its name. Returns false when no pin has the id.
  bool Unpin(uint64_t id);
  bool Unpin(const std::string& name);
  /// Forgets all names; their pins have already ended.
  void Forget();
  /// Returns the name of a pin; empty when the pin has no name.
  std::string NameOf(uint64_t id) const;

  /// Brings the stored blocks of pins back into the cache, and pins them. Called after the workers were replaced.
  void Restore(KvGate& gate, double now);
  /// Called in every round of the engine's loop. Records uses of the pinned blocks' files, so that the files do not
  /// expire.
  void Round(double now);

 private:
  std::optional<uint64_t> PinNow(const StoredPin& pin, double seconds, double now);

  KvStore& store_;
  Engine& engine_;
  const int replica_, num_replicas_;
  std::map<std::string, uint64_t> ids_;  // the engine's ids of the pins by name; the pins may have ended
  double next_use_ = 0;
};

}  // namespace quire
