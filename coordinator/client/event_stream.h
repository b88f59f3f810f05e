#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/client/http_client.h"

namespace quire {

/// POSTs the request and hands out the server-sent events of the answer as they come, to the stream's end. Returns why
/// the answer is not whole; empty: it is. Both arguments must outlive the answer. Never throws for what the network or
/// the server does.
boost::asio::awaitable<std::string> ReadEvents(const ClientRequest& request,
                                               const std::function<void(const Json&)>& on_event);

}  // namespace quire
