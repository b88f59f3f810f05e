#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cache_events/cache_event_queue.h"

namespace quire {

/// Publishes a replica's cache events over ZeroMQ as vLLM does, on a thread of its own, so that routers can send a
/// request to the replica that has the beginning of its prompt cached.
///
/// Subscribers (PUB socket) get [topic, number of the batch, batch]; the number has 8 bytes, the most significant
/// first. Clients of the replay endpoint are served by CacheEventReplays.
///
/// A full queue never delays the engine: the batches in the queue are dropped, and the next batch says that nothing is
/// cached. ZeroMQ drops batches for a subscriber that reads too slowly. The subscriber sees the gap in the numbers, and
/// can ask for the dropped batches at the replay endpoint.
class CacheEventPublisher {
 public:
  /// Binds or connects the sockets. `settings` are the replica's own (ReplicaTopology). Throws Error when an endpoint
  /// cannot be used.
  CacheEventPublisher(const Topology::KvEvents& settings, CacheEventSource source);
  /// Sends the waiting batches, then ends the thread.
  ~CacheEventPublisher();
  CacheEventPublisher(const CacheEventPublisher&) = delete;
  CacheEventPublisher& operator=(const CacheEventPublisher&) = delete;

  /// Takes a batch and returns without waiting. Ignores an empty batch.
  void Publish(std::vector<CacheEvent> events);
  /// Sets the name that events use for an adapter loaded while the server runs.
  void NameAdapter(int number, const std::string& name);

 private:
  struct Sockets;

  void Run();
  void Send(const CacheEventQueue::Batch& batch);
  void Wake();

  const Topology::KvEvents settings_;
  std::mutex mutex_;  // guards source_
  CacheEventSource source_;
  CacheEventQueue queue_;
  std::atomic<bool> ending_{false};
  std::unique_ptr<Sockets> sockets_;  // while the thread runs, other threads use only wake_fd
  std::thread thread_;
};

}  // namespace quire
