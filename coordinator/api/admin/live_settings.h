#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "comm/topology/topology.h"

namespace quire {

/// The settings of a running server: the settings of its start, with operators' changes, which last until the server
/// ends. Only the I/O thread uses this class.
class LiveSettings {
 public:
  /// Passes the settings that are now in force to the parts of the server that use them.
  using Apply = std::function<void(const Topology&)>;

  /// `started` holds the settings as the operator gave them. The limits that follow from the settings in this process
  /// (LimitsOfThisProcess) are computed by the constructor and after every change. Objects that `apply` uses must
  /// outlive this object.
  LiveSettings(Topology started, Apply apply);

  /// Returns the settings in force.
  const Topology& topology() const { return in_force_; }
  /// Returns the keys of a topology file that can change at run time, sorted.
  static std::vector<std::string> Keys();

  /// Changes settings. `changes` has keys and values of a topology file, such as {"logs.level": "debug"}. The value
  /// null restores the value of the start. In server.key_limits an entry replaces the limits of that API key, and null
  /// removes them; the limits of other API keys do not change. If one change is refused, no setting changes. Returns
  /// the given keys. Throws Error or ApiError that names the key and the remedy.
  std::vector<std::string> Change(const Json& changes);

  /// Compares two readings of the operator's settings files, and applies the differences in keys that can change at run
  /// time. The new values replace earlier changes; a later null restores the new value. Returns the names of the
  /// changed keys. Throws Error that names the key and the remedy; then no setting changes.
  std::vector<std::string> Follow(const Topology& before, const Topology& now);
  static bool AreEqualButForLiveKeys(const Topology& one, const Topology& other);

 private:
  /// Removes the entries of the API keys that `limits` names from the key_limits of `next`. Returns the new entries as
  /// JSON, which the caller must then read into `next`.
  Json LayKeyLimits(const Json& limits, Topology& next) const;
  void TakeEffect(Topology next);

  Topology started_;
  const Apply apply_;
  Topology given_;     // started_ with the changes
  Topology in_force_;  // given_, with limits lowered to those of this process (LimitsOfThisProcess)
};

}  // namespace quire
