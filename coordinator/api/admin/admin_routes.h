#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "coordinator/api/http/http_types.h"
#include "coordinator/api/http/routes.h"

namespace quire {

/// Answers one endpoint of the admin port. One that has streamed its answer returns one that is not to be sent. Throws
/// Error (400) or ApiError.
using AdminHandler = std::function<boost::asio::awaitable<HttpResponse>(HttpRequest&, HttpResponder&)>;

/// The table of the admin port: every endpoint with its handler and its line of help.
using AdminRoutes = Routes<AdminHandler>;

}  // namespace quire
