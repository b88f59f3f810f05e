#pragma once

#include <boost/asio/io_context.hpp>

#include "coordinator/http/handshake_turns.h"
#include "coordinator/http/io_shares.h"
#include "coordinator/http/request_turns.h"

namespace quire {

/// The queues in which one port's connections wait for their turn, and their shares of the I/O thread's time.
struct PortTurns {
  explicit PortTurns(boost::asio::io_context& io)
      : handshakes(io.get_executor()), requests(io.get_executor()), shares(boost::asio::use_service<IoShares>(io)) {}

  HandshakeTurns handshakes;
  RequestTurns requests;
  IoShares& shares;
};

}  // namespace quire
