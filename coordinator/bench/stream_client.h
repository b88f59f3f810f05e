#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "coordinator/client/event_stream.h"

namespace quire {

struct StreamTimes {
  std::chrono::steady_clock::time_point begin;
  std::vector<double> events;  // seconds from `begin` until each piece of text
  int tokens = 0;              // the server's count of tokens; without a count, the number of events
  double end = 0;              // seconds from `begin` until the stream's end
  std::string problem;         // the reason why the stream is incomplete; empty: complete
};

/// Reads a stream to its end. Network and server errors do not throw; their text is in `problem`.
boost::asio::awaitable<void> TimeStream(ClientRequest request, StreamTimes& times);

}  // namespace quire
