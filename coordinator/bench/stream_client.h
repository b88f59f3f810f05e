#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "coordinator/client/event_stream.h"

namespace quire {

struct StreamTimes {
  std::chrono::steady_clock::time_point begin;
  std::vector<double> events;  // seconds from then until each piece of text came
  int tokens = 0;              // as the server counts them; events where it does not
  double end = 0;              // seconds until the stream's end
  std::string problem;         // why it is not whole; empty: it is
};

/// Reads a stream to its end. Never throws for what the network or the server does: that is `problem`.
boost::asio::awaitable<void> TimeStream(ClientRequest request, StreamTimes& times);

}  // namespace quire
