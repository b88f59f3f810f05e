#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/client/http_client.h"

namespace quire {

/// POSTs the request and passes each server-sent event of the answer to `on_event` until the stream ends. Returns the
/// reason why the answer is incomplete; empty when it is complete. Both arguments must outlive the call. Network and
/// server errors do not throw.
boost::asio::awaitable<std::string> ReadEvents(const ClientRequest& request,
                                               const std::function<void(const Json&)>& on_event);

}  // namespace quire
