#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <zmq.hpp>

#include "comm/wire/gate/open_gate.h"

namespace quire {

/// Stores the last batches of cache events, and sends them again to clients that ask (ROUTER socket). A client sends
/// ["", number] and gets ["", number, batch] for each stored batch from that number on, then ["", the number -1, ""].
///
/// A client has one replay at a time: requests that the client sends during its replay are dropped. Clients take turns,
/// and the caller can publish new batches between two calls of Serve(), so no client delays others, however many
/// requests it sends. The class is not thread-safe.
class CacheEventReplays {
 public:
  /// Listens on the endpoint. Keeps at most `max_batches` batches, and 64 MiB of them. Throws Error when the endpoint
  /// cannot be used.
  CacheEventReplays(zmq::context_t& context, const std::string& endpoint, int max_batches);

  /// Returns the ZeroMQ socket, which is readable when a request of a client has arrived.
  void* handle() { return socket_.handle(); }

  /// Keeps a batch, and drops the oldest batches beyond the limits. `number` rises by one from call to call.
  void Keep(uint64_t number, zmq::message_t batch);

  /// Reads some requests and sends some batches, without waiting. Returns the time until the next call: 0 when batches
  /// can be sent now, some milliseconds while all clients read slowly, -1 (no limit) without replays to finish.
  std::chrono::milliseconds Serve();

 private:
  struct Kept {
    uint64_t number;
    zmq::message_t batch;
  };
  struct Replay {
    std::string client;  // routing id
    uint64_t next;       // number of the next batch to send
  };
  enum class Sent { kBatch, kEnd, kNotNow, kClientIsGone };

  void ReadRequests();
  Sent SendNext(Replay& replay);
  /// Returns false when the client's queue is full. Throws zmq::error_t when the client is gone.
  bool Send(const std::string& client, uint64_t number, zmq::message_t batch);

  const size_t max_batches_;
  std::unique_ptr<OpenGate> gate_;  // destroyed after the socket
  zmq::socket_t socket_;
  std::deque<Kept> kept_;
  size_t kept_bytes_ = 0;
  std::list<Replay> replays_;
};

}  // namespace quire
