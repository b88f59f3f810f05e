#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/client/server_address.h"

namespace quire {

/// A request whose answer comes as server-sent events.
struct EventRequest {
  ServerAddress server;
  boost::asio::ip::tcp::endpoint endpoint;  // server.Resolve()
  std::string authorization;                // "Bearer ...", or empty
  std::string path;
  std::string body;  // JSON
};

/// POSTs the request and hands out the events as they come, to the stream's end. Returns why the answer is not whole;
/// empty: it is. Both arguments must outlive the answer, which has 64 MiB at the most. Never throws for what the
/// network or the server does. Certificates are checked against the system's.
boost::asio::awaitable<std::string> ReadEvents(const EventRequest& request,
                                               const std::function<void(const Json&)>& on_event);

}  // namespace quire
