#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "coordinator/api/http_types.h"
#include "coordinator/cluster/deployment.h"
#include "coordinator/cluster/engine_loop.h"

namespace quire {

/// What operators do to a running server: the POST half of the admin port that changes more than the cache.
/// One thread: the I/O thread.
class AdminControl {
 public:
  /// The server's own: the data port takes no new requests while draining.
  struct DataPort {
    std::function<void(bool draining)> set_draining;
    std::function<int()> pending_requests;
  };
  AdminControl(EngineLoop& engine, Deployment& deployment, DataPort data_port);

  /// True when the path is one of this class's.
  static bool Handles(const std::string& path);
  /// The answer of such a path. Throws ApiError. Replacing workers answers when it is done.
  boost::asio::awaitable<HttpResponse> Handle(const HttpRequest& request);

 private:
  boost::asio::awaitable<HttpResponse> ReplaceWorkers(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> Abort(const HttpRequest& request);
  HttpResponse SetAccepting(bool paused, bool draining);

  EngineLoop& engine_;
  Deployment& deployment_;
  DataPort data_port_;
};

}  // namespace quire
