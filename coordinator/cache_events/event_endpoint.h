#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <zmq.hpp>

#include "comm/wire/gate/open_gate.h"

namespace quire {

/// Makes the socket listen on the endpoint if `bind` is true; otherwise connects the socket to the endpoint. If the
/// socket listens on a TCP port, returns the gate in front of the port; otherwise returns null. Destroy the gate after
/// the socket: the gate forwards the socket's last bytes. `queued`: the most messages that wait for a slow peer.
/// `to_speak`: time in which a peer must send its first message; 0: no limit. Throws Error when the endpoint cannot be
/// used.
std::unique_ptr<OpenGate> OpenEventEndpoint(zmq::socket_t& socket, const std::string& endpoint, bool bind, int queued,
                                            std::chrono::seconds to_speak);

/// Returns the message for a batch's number: 8 bytes, the most significant first.
zmq::message_t NumberMessage(uint64_t number);
/// Returns the number that NumberMessage has put into a message.
uint64_t NumberOf(const zmq::message_t& message);

}  // namespace quire
