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
  /// The replica's workers are long in coming back: moves its requests to other replicas, if some are ready.
  virtual void OnSlowRestart(int replica, Engine& engine) = 0;
  /// The replica's workers are given up: moves requests that other replicas can serve out of its engine. Also called
  /// for requests that come later.
  virtual void OnAbandoned(int replica, Engine& engine) = 0;
  /// Called after OnAbandoned.
  virtual void OnLost(int replica, const std::string& reason) = 0;
  /// True when the server goes on without the workers that were given up. Then they are started again later.
  virtual bool MayReturn() const = 0;
  virtual void OnReturned(int replica) = 0;
};

}  // namespace quire
