#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The owner of all replicas (Replicas), as one replica sees it. Calls come on the thread of that replica's engine.
class ReplicaListener {
 public:
  virtual ~ReplicaListener() = default;

  /// Called in every round of the replica's loop.
  virtual void OnRound(int replica, Engine& engine) = 0;
  /// Called when a rank of the replica reports on KV blocks that move between replicas.
  virtual void OnBlocksReport(int replica, Rank rank, const BlocksReport& report) = 0;
  /// Called when the replica is lost for good, and for requests that come later. Moves requests out of its engine if
  /// other replicas can serve them.
  virtual void OnAbandoned(int replica, Engine& engine) = 0;
  /// Called once, after OnAbandoned.
  virtual void OnLostForGood(int replica, const std::string& reason) = 0;
};

}  // namespace quire
