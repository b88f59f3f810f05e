#pragma once

#include "coordinator/http/handshake_turns.h"
#include "coordinator/http/request_turns.h"

namespace quire {

/// The queues in which the connections of one port wait for each other.
struct PortTurns {
  explicit PortTurns(const boost::asio::any_io_executor& executor) : handshakes(executor), requests(executor) {}

  HandshakeTurns handshakes;
  RequestTurns requests;
};

}  // namespace quire
