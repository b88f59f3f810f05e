#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace quire {

/// Where a completion is asked for.
struct StreamTarget {
  boost::asio::ip::tcp::endpoint endpoint;
  std::string host;           // for the Host header: HOST:PORT
  std::string authorization;  // "Bearer ...", or empty
};

struct StreamTimes {
  std::chrono::steady_clock::time_point begin;
  std::vector<double> events;  // seconds from then until each piece of text came
  int tokens = 0;              // as the server counts them; events where it does not
  double end = 0;              // seconds until the stream's end
  std::string problem;         // why it is not whole; empty: it is
};

/// POSTs the body to /v1/completions and reads the event stream that comes back to its end. Never throws for what the
/// network or the server does: that is `problem`.
boost::asio::awaitable<void> ReadStream(StreamTarget target, std::string body, StreamTimes& times);

}  // namespace quire
