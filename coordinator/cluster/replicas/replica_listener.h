#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The calls that a replica makes to its owner (Replicas). Calls come on the thread of that replica's engine.
class ReplicaListener {
 public:
  virtual ~ReplicaListener() = default;

  /// Called in every round of the replica's loop.
  virtual void OnRound(int replica, Engine& engine) = 0;
  /// Called when a rank of the replica reports on KV blocks that move between replicas.
  virtual void OnBlocksReport(int replica, Rank rank, const BlocksReport& report) = 0;
  /// Called while the replica's workers take long to restart. Moves its requests to other replicas that are ready, if
  /// any.
  virtual void OnSlowRestart(int replica, Engine& engine) = 0;
  /// Called when the replica's workers are given up, and again for requests that come later. Takes requests that other
  /// replicas can serve out of its engine.
  virtual void OnAbandoned(int replica, Engine& engine) = 0;
  /// Called after OnAbandoned.
  virtual void OnLost(int replica, const std::string& reason) = 0;
  /// True when other replicas serve. Only then are workers that were given up started again later.
  virtual bool MayReturn() const = 0;
  virtual void OnReturned(int replica) = 0;
};

}  // namespace quire
