#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "comm/base/json_fwd.h"
#include "coordinator/http/http_types.h"

namespace quire {

/// Answers one request of the data port on the I/O thread. An exception becomes an error answer.
using DataHandler = std::function<boost::asio::awaitable<void>(HttpRequest&, HttpResponder&)>;

/// Makes the handler of an endpoint that answers without waiting.
DataHandler At(std::function<HttpResponse(HttpRequest&)> answer);

/// Makes the handler of an endpoint that a member function of `pages` answers. `pages` must outlive the handler.
template <class Pages>
DataHandler AnsweredBy(Pages* pages, boost::asio::awaitable<void> (Pages::*answer)(HttpRequest&, HttpResponder&)) {
  return
      [pages, answer](HttpRequest& request, HttpResponder& responder) { return (pages->*answer)(request, responder); };
}

/// Returns a response 200 with this body.
HttpResponse JsonResponse(const Json& json);

}  // namespace quire
