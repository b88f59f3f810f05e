#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "comm/topology/topology.h"

namespace quire {

/// The settings of a running server: those it was started with, and what operators changed since, which lasts until the
/// server ends. One thread: the I/O thread.
class LiveSettings {
 public:
  /// Makes settings hold that have changed.
  using Apply = std::function<void(const Topology&)>;

  /// started: as the operator gave it; what follows from it in this process (LimitsOfThisProcess) is worked out here,
  /// now and after every change. `apply` outlives this object.
  LiveSettings(Topology started, Apply apply);

  /// What is in force.
  const Topology& topology() const { return in_force_; }
  /// The keys of a topology file that can change while the server runs, in the order of the alphabet.
  static std::vector<std::string> Keys();

  /// Changes settings: {"logs.level": "debug"}, keys and values as a topology file has them. null takes a setting back
  /// to what the server was started with. An entry of server.key_limits replaces that key's limits, null removes them;
  /// keys that are not named keep theirs. All of the changes are made or, when one is refused, none of them. Returns
  /// the keys that were named. Throws Error or ApiError, which name the key and the remedy.
  std::vector<std::string> Change(const Json& changes);

  /// Takes over the keys that can change and that differ between two readings of the operator's settings, also over
  /// earlier changes; null takes a setting back to them from then on. Returns their names. Throws Error that names the
  /// key and the remedy; nothing is changed then.
  std::vector<std::string> Follow(const Topology& before, const Topology& now);
  static bool AreEqualButForLiveKeys(const Topology& one, const Topology& other);

 private:
  /// What limits of single keys become: takes away from `next` what is replaced, and returns what is to be read into
  /// it.
  Json LayKeyLimits(const Json& limits, Topology& next) const;
  void TakeEffect(Topology next);

  Topology started_;
  const Apply apply_;
  Topology given_;     // started_ and the changes
  Topology in_force_;  // and what follows from them
};

}  // namespace quire
