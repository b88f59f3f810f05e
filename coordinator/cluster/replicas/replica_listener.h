#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Whoever knows all replicas, as one of them sees it: called on the thread of that replica's engine.
class ReplicaListener {
 public:
  virtual ~ReplicaListener() = default;

  /// In every round of the replica's loop.
  virtual void OnRound(int replica, Engine& engine) = 0;
  /// A rank of the replica has something to say about KV blocks on their way between replicas.
  virtual void OnBlocksReport(int replica, Rank rank, const BlocksReport& report) = 0;
  /// The replica is lost for good: takes what others can serve out of its engine. Also called for requests that come
  /// later.
  virtual void OnAbandoned(int replica, Engine& engine) = 0;
  /// Once, after that.
  virtual void OnLostForGood(int replica, const std::string& reason) = 0;
};

}  // namespace quire
