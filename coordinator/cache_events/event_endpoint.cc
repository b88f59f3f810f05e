#include "coordinator/cache_events/event_endpoint.h"

#include <array>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr int64_t kMostAskedBytes = 256;  // most bytes of a frame from a client

void SetOptions(zmq::socket_t& socket, const std::string& endpoint, int queued) {
  if (endpoint.starts_with("tcp://[")) socket.set(zmq::sockopt::ipv6, 1);  // lets connect() use an IPv6 address
  socket.set(zmq::sockopt::linger, 500);
  socket.set(zmq::sockopt::sndhwm, queued);
  socket.set(zmq::sockopt::maxmsgsize, kMostAskedBytes);
  socket.set(zmq::sockopt::handshake_ivl, 3000);
  socket.set(zmq::sockopt::backlog, 128);
}

}  // namespace

std::unique_ptr<OpenGate> OpenEventEndpoint(zmq::socket_t& socket, const std::string& endpoint, bool bind, int queued,
                                            std::chrono::seconds to_speak) {
  SetOptions(socket, endpoint, queued);
  std::unique_ptr<OpenGate> gate;
  try {
    if (bind && endpoint.starts_with("tcp://")) {
      gate = std::make_unique<OpenGate>(endpoint, "kv_events: " + endpoint, to_speak);
      socket.set(zmq::sockopt::use_fd, gate->ReleaseInner());
      socket.bind("ipc://behind-the-gate");  // any unused name
      gate->Open();
    } else {
      bind ? socket.bind(endpoint) : socket.connect(endpoint);
    }
  } catch (const zmq::error_t& error) {
    Fail("kv_events: cannot {} {}: {}", bind ? "listen on" : "connect to", endpoint, error.what());
  } catch (const Error& error) {
    Fail("kv_events: {}", error.what());
  }
  return gate;
}

zmq::message_t NumberMessage(uint64_t number) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(number >> (56 - 8 * i));
  return zmq::message_t(bytes.data(), bytes.size());
}

uint64_t NumberOf(const zmq::message_t& message) {
  uint64_t number = 0;
  for (size_t i = 0; i < message.size(); ++i) number = number << 8 | message.data<uint8_t>()[i];
  return number;
}

}  // namespace quire
