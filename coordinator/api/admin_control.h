#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "coordinator/api/http_types.h"
#include "coordinator/cluster/replicas.h"

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
  AdminControl(Replicas& replicas, DataPort data_port);

  static constexpr const char* kPaths[] = {"/admin/pause",           "/admin/resume", "/admin/drain",
                                           "/admin/log_level",       "/admin/abort",  "/admin/reshard",
                                           "/admin/restart_workers", "/admin/migrate"};
  /// The answer to a POST to one of the paths. Throws ApiError. Replacing workers answers when it is done; it goes
  /// through the replicas one after another, or takes the one that "replica" names. The other verbs are for all of
  /// them.
  boost::asio::awaitable<HttpResponse> Handle(const HttpRequest& request);

 private:
  boost::asio::awaitable<HttpResponse> ReplaceWorkers(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> Abort(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> Migrate(const HttpRequest& request);
  HttpResponse SetAccepting(bool paused, bool draining);

  Replicas& replicas_;
  DataPort data_port_;
};

}  // namespace quire
