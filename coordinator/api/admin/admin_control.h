#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <utility>

#include "coordinator/api/http/http_types.h"
#include "coordinator/cluster/replicas/replicas.h"

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

  /// With one line for people.
  static constexpr std::pair<const char*, const char*> kPaths[] = {
      {"/admin/pause", "requests are taken and wait"},
      {"/admin/resume", "ends a pause or a drain"},
      {"/admin/drain", "new requests are refused, those that are here go on"},
      {"/admin/log_level", "{level: trace, debug, info, warn or error}"},
      {"/admin/abort", "ends {request: ID}, or {all: true}"},
      {"/admin/reshard", "{tensor: N, shares: [...]}: other workers under load; also replica"},
      {"/admin/restart_workers", "the same number of workers anew; also {replica: N}"},
      {"/admin/migrate", "moves {request: ID} to {replica: N}"}};
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
