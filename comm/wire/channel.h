#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/curve_server.h"
#include "comm/wire/messages.h"

namespace quire {

struct ReceivedFrame {
  std::string peer;  // identity of the sender, as it says; empty on the worker's side
  std::string user;  // whose key it has ("r0"), which it cannot choose; empty without encryption
  Frame frame;
};

/// One ZeroMQ socket: ROUTER at the coordinator and where a worker takes blocks, DEALER at a worker. Bounded queues,
/// heartbeats on the connection, and no silent loss: a send that cannot be queued reports it (options and reasons:
/// comm/PROTOCOL.md). A channel belongs to one thread.
class Channel {
 public:
  /// Binds "tcp://ADDRESS:PORT" (port 0: any free one) or "ipc://PATH". With `curve` only the workers that it knows can
  /// connect, and all traffic is encrypted; the channel keeps it alive.
  static Channel Bind(const std::string& endpoint, std::shared_ptr<CurveServer> curve = nullptr);
  /// Connects under an identity that the other side sees as `peer`; with `keys` encrypted, and to nobody but the
  /// coordinator that they name, or the worker with this public key.
  static Channel Connect(const std::string& endpoint, const std::string& identity, const WorkerKeys* keys = nullptr,
                         const std::string& worker_key = "");

  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  /// The address with the port the system chose.
  std::string bound_endpoint() const;

  /// Queues a frame for `peer` (ignored on the worker's side). False: the peer is unknown, gone, or too far behind.
  bool Send(const std::string& peer, const Frame& frame);

  /// The next frame that has arrived. Messages that are not of a Quire frame's two parts are dropped by the
  /// coordinator's side, and an Error on a worker's.
  std::optional<ReceivedFrame> TryReceive();

  /// Waits until one of the channels has a frame, wake_fd (when >= 0) is readable, or the time is over.
  static void Wait(std::span<Channel* const> channels, int wake_fd, int timeout_millis);

 private:
  struct Socket;
  explicit Channel(std::unique_ptr<Socket> socket);
  std::unique_ptr<Socket> socket_;
};

/// The control endpoint that belongs to a data endpoint: "<path>.ctrl" for ipc, the given port for tcp.
std::string CtrlEndpoint(const std::string& data_endpoint, uint16_t ctrl_port);

/// Identity of a worker's sockets in one epoch: "e1.r0".
std::string WorkerIdentity(EpochId epoch, Rank rank);

}  // namespace quire
