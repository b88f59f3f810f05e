#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/admin/live_settings.h"
#include "coordinator/cluster/replicas/replicas.h"

namespace quire {

/// What operators do to a running server: the half of the admin port that changes more than the cache.
/// One thread: the I/O thread.
class AdminControl {
 public:
  /// The server's own: the data port takes no new requests while draining, and is not ready while paused.
  struct DataPort {
    std::function<void(bool draining, bool paused)> set_accepting;
    std::function<int()> pending_requests;
  };
  /// The references outlive this object.
  AdminControl(Replicas& replicas, LiveSettings& settings, DataPort data_port);

  /// Whose handlers refer to this object. Replacing workers answers when it is done; it goes through the replicas one
  /// after another, or takes the one that "replica" names. The other verbs are for all of them.
  std::vector<AdminRoutes::Route> MakeRoutes();

  /// As LiveSettings::Follow; the engines hear of it soon.
  void Follow(boost::asio::io_context& io, const Topology& before, const Topology& now);

 private:
  enum class Accepting { kAll, kPaused, kDraining };

  boost::asio::awaitable<HttpResponse> Reshard(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> RestartWorkers(const HttpRequest& request);
  /// shape: nothing for the one that each has. replica: nothing for all of them.
  boost::asio::awaitable<HttpResponse> ReplaceWorkers(std::optional<GroupShape> shape, std::optional<int64_t> replica);
  boost::asio::awaitable<HttpResponse> Abort(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> Migrate(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> SetLogLevel(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> PatchConfig(const HttpRequest& request);
  /// Answers after the seconds that are asked for. One at a time: 409 meanwhile.
  boost::asio::awaitable<HttpResponse> Profile(const HttpRequest& request);
  /// Answers when every engine knows of it. Throws as LiveSettings::Change does.
  boost::asio::awaitable<HttpResponse> Change(const Json& changes);
  /// Passes on what is in force, and notes who changed which keys.
  boost::asio::awaitable<void> TellEngines(std::vector<std::string> keys, std::string by_whom);
  HttpResponse SetAccepting(Accepting accepting);

  Replicas& replicas_;
  LiveSettings& settings_;
  DataPort data_port_;
  bool profiling_ = false;
};

}  // namespace quire
