#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/curve/curve_server.h"
#include "comm/wire/messages.h"

namespace quire {

struct ReceivedFrame {
  std::string peer;  // identity that the sender claims; empty on a worker's side
  std::string user;  // user id of the sender's key ("r0"), proven by CURVE; empty without encryption
  Frame frame;
};

/// One ZeroMQ socket: a ROUTER at the end that binds (the coordinator, or a worker that receives KV blocks), a DEALER
/// at the end that connects. Queues are bounded, the connection has heartbeats, and no frame is lost silently: Send
/// returns false when it cannot queue the frame. comm/PROTOCOL.md lists the options and their reasons. A channel
/// belongs to one thread.
class Channel {
 public:
  /// Binds "tcp://ADDRESS:PORT" (port 0: any free port) or "ipc://PATH". With `curve`, only workers whose keys are in
  /// it can connect, and all traffic is encrypted. The channel keeps `curve` alive.
  static Channel Bind(const std::string& endpoint, std::shared_ptr<CurveServer> curve = nullptr);
  /// Connects to the endpoint. The channel that bound the endpoint sees `identity` as `peer`. With `keys`, traffic is
  /// encrypted, and the server must have the key `worker_key` or, if `worker_key` is empty, the coordinator's key in
  /// `keys`.
  static Channel Connect(const std::string& endpoint, const std::string& identity, const WorkerKeys* keys = nullptr,
                         const std::string& worker_key = "");

  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  /// Returns the bound address, with the port that the system chose.
  std::string bound_endpoint() const;

  /// Queues a frame for `peer` (which a DEALER ignores). Returns false when the peer is unknown or gone, or when its
  /// queue is full.
  bool Send(const std::string& peer, const Frame& frame);

  /// Returns the next frame that has arrived, or nullopt. A ROUTER drops messages that are not a Quire frame of two
  /// parts; a DEALER throws Error for them.
  std::optional<ReceivedFrame> TryReceive();

  /// Waits until one of the channels has a frame, wake_fd (when >= 0) is readable, or the timeout has passed.
  static void Wait(std::span<Channel* const> channels, int wake_fd, int timeout_millis);

 private:
  struct Socket;
  explicit Channel(std::unique_ptr<Socket> socket);
  std::unique_ptr<Socket> socket_;
};

/// Returns the control endpoint that belongs to a data endpoint: "<path>.ctrl" for ipc, the given port for tcp.
std::string CtrlEndpoint(const std::string& data_endpoint, uint16_t ctrl_port);

/// Returns the identity of a worker's sockets in one epoch, for example "e1.r0".
std::string WorkerIdentity(EpochId epoch, Rank rank);

}  // namespace quire
