#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "coordinator/http/http_types.h"
#include "coordinator/http/routes.h"

namespace quire {

/// Answers one endpoint of the admin port. The result of a handler that streamed its answer is ignored. Throws Error
/// (answered with 400) or ApiError.
using AdminHandler = std::function<boost::asio::awaitable<HttpResponse>(HttpRequest&, HttpResponder&)>;

/// The endpoints of the admin port, each with its handler and its line of help.
using AdminRoutes = Routes<AdminHandler>;

}  // namespace quire
