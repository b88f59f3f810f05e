#include "comm/wire/channel.h"

#include <cstring>
#include <zmq.hpp>

#include "comm/base/error.h"
#include "comm/wire/gate/port_gate.h"

namespace quire {

namespace {

constexpr int64_t kMaxPartBytes = 64 << 20;
constexpr int kQueuedFrames = 64;

/// Returns the process's ZeroMQ context, which has its queues and its I/O thread. ZeroMQ intends one context for each
/// process. The context outlives its sockets.
zmq::context_t& Context() {
  static zmq::context_t context = [] {
    zmq::context_t c(1);
    c.set(zmq::ctxopt::blocky, 0);
    c.set(zmq::ctxopt::max_sockets, 1024);
    return c;
  }();
  return context;
}

void SetOptions(zmq::socket_t& socket, const std::string& endpoint) {
  if (endpoint.starts_with("tcp://[")) socket.set(zmq::sockopt::ipv6, 1);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kQueuedFrames);
  socket.set(zmq::sockopt::rcvhwm, kQueuedFrames);
  socket.set(zmq::sockopt::sndtimeo, 0);
  socket.set(zmq::sockopt::maxmsgsize, kMaxPartBytes);
  socket.set(zmq::sockopt::heartbeat_ivl, 500);
  socket.set(zmq::sockopt::heartbeat_timeout, 1500);
  socket.set(zmq::sockopt::heartbeat_ttl, 2000);
  socket.set(zmq::sockopt::handshake_ivl, 3000);
  socket.set(zmq::sockopt::tcp_maxrt, 3000);
}

/// Returns the user id that the ZAP handler gave to the sender's key; "" if it gave none.
std::string UserId(zmq::message_t& part) {
  const char* user = ::zmq_msg_gets(part.handle(), "User-Id");
  return user != nullptr ? user : "";
}

}  // namespace

struct Channel::Socket {
  std::shared_ptr<CurveServer> curve;  // owns the socket's context, so it is destroyed after the socket
  std::unique_ptr<PortGate> gate;      // forwards the last bytes: destroyed after the socket; null without keys or TCP
  zmq::socket_t socket;
  bool router;
};

Channel::Channel(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

Channel Channel::Bind(const std::string& endpoint, std::shared_ptr<CurveServer> curve) {
  zmq::context_t& context = curve != nullptr ? curve->context() : Context();
  auto socket =
      std::make_unique<Socket>(Socket{curve, nullptr, zmq::socket_t(context, zmq::socket_type::router), true});
  SetOptions(socket->socket, endpoint);
  if (curve != nullptr) curve->Secure(socket->socket);
  socket->socket.set(zmq::sockopt::router_mandatory, 1);
  socket->socket.set(zmq::sockopt::backlog, 128);
  if (curve != nullptr && endpoint.starts_with("tcp://")) {
    socket->gate = std::make_unique<PortGate>(endpoint, curve);
    socket->socket.set(zmq::sockopt::use_fd, socket->gate->ReleaseInner());
  }
  try {
    socket->socket.bind(socket->gate != nullptr ? "ipc://behind-the-gate" : endpoint);  // any unused name
  } catch (const zmq::error_t& error) {
    Fail("cannot listen on {}: {}", endpoint, error.what());
  }
  if (socket->gate != nullptr) socket->gate->Open();
  Channel channel(std::move(socket));
  if (curve != nullptr) curve->CheckThatStrangersAreRefused(channel.bound_endpoint());
  return channel;
}

Channel Channel::Connect(const std::string& endpoint, const std::string& identity, const WorkerKeys* keys,
                         const std::string& worker_key) {
  auto socket =
      std::make_unique<Socket>(Socket{nullptr, nullptr, zmq::socket_t(Context(), zmq::socket_type::dealer), false});
  SetOptions(socket->socket, endpoint);
  if (keys != nullptr) {
    socket->socket.set(zmq::sockopt::curve_serverkey, worker_key.empty() ? keys->coordinator : worker_key);
    socket->socket.set(zmq::sockopt::curve_publickey, keys->own.public_key);
    socket->socket.set(zmq::sockopt::curve_secretkey, keys->own.secret_key.view());
  }
  socket->socket.set(zmq::sockopt::routing_id, identity);
  socket->socket.set(zmq::sockopt::connect_timeout, 2000);
  socket->socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket->socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
  try {
    socket->socket.connect(endpoint);
  } catch (const zmq::error_t& error) {
    Fail("cannot connect to {}: {}", endpoint, error.what());
  }
  return Channel(std::move(socket));
}

std::string Channel::bound_endpoint() const {
  return socket_->gate != nullptr ? socket_->gate->endpoint() : socket_->socket.get(zmq::sockopt::last_endpoint);
}

bool Channel::Send(const std::string& peer, const Frame& frame) {
  auto& socket = socket_->socket;
  try {
    if (socket_->router && !socket.send(zmq::buffer(peer), zmq::send_flags::sndmore | zmq::send_flags::dontwait))
      return false;
    if (!socket.send(zmq::buffer(&frame.header, sizeof(frame.header)),
                     zmq::send_flags::sndmore | zmq::send_flags::dontwait))
      return false;
    return socket.send(zmq::buffer(frame.body), zmq::send_flags::dontwait).has_value();
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) return false;
    throw;
  }
}

std::optional<ReceivedFrame> Channel::TryReceive() {
  auto& socket = socket_->socket;
  for (;;) {
    std::vector<zmq::message_t> parts;
    do {
      zmq::message_t part;
      if (!socket.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
      // Reads the whole message, but stores at most four of its parts.
      if (parts.size() < 4)
        parts.push_back(std::move(part));
      else
        parts.back() = std::move(part);
    } while (parts.back().more());

    const size_t first = socket_->router ? 1 : 0;  // a ROUTER puts the peer's identity in front
    if (parts.size() == first + 2 && parts[first].size() == sizeof(FrameHeader)) {
      ReceivedFrame received;
      if (socket_->router) received.peer = parts[0].to_string();
      if (socket_->curve != nullptr) received.user = UserId(parts[first]);
      std::memcpy(&received.frame.header, parts[first].data(), sizeof(FrameHeader));
      const auto* body = parts[first + 1].data<std::byte>();
      received.frame.body.assign(body, body + parts[first + 1].size());
      return received;
    }
    // Any process that reaches the coordinator's port can send garbage. A worker receives from the coordinator only.
    if (!socket_->router) Fail("the coordinator sent something that is no Quire frame");
  }
}

void Channel::Wait(std::span<Channel* const> channels, int wake_fd, int timeout_millis) {
  std::vector<zmq::pollitem_t> items;
  for (Channel* channel : channels) items.push_back({channel->socket_->socket.handle(), 0, ZMQ_POLLIN, 0});
  if (wake_fd >= 0) items.push_back({nullptr, wake_fd, ZMQ_POLLIN, 0});
  try {
    zmq::poll(items.data(), items.size(), std::chrono::milliseconds(timeout_millis));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

std::string CtrlEndpoint(const std::string& data_endpoint, uint16_t ctrl_port) {
  if (data_endpoint.starts_with("ipc://")) return data_endpoint + ".ctrl";
  const size_t colon = data_endpoint.rfind(':');
  return data_endpoint.substr(0, colon + 1) + std::to_string(ctrl_port);
}

std::string WorkerIdentity(EpochId epoch, Rank rank) { return fmt::format("e{}.r{}", epoch, rank); }

}  // namespace quire
