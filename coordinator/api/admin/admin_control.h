#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/admin/live_settings.h"
#include "coordinator/api/models/model_roster.h"

namespace quire {

/// The handlers with which an operator changes a running server: pauses and drains it, aborts and migrates requests,
/// replaces workers, changes settings and records profiles. Only the I/O thread uses this class.
class AdminControl {
 public:
  /// Callbacks of the data port. While draining, the data port refuses new generating requests. While draining or
  /// paused, its endpoint /ready answers 503.
  struct DataPort {
    std::function<void(bool draining, bool paused)> set_accepting;
    std::function<int()> pending_requests;
  };
  /// The references must outlive this object.
  AdminControl(ModelRoster& models, LiveSettings& settings, DataPort data_port);

  /// Returns the routes; their handlers refer to this object. Most routes apply to all replicas of all models.
  /// Routes about one model take its name from the query (asked_model.h). Reshard and restart_workers replace the
  /// workers of one replica after another, or only of the replica that the field "replica" names, and answer when
  /// that is done.
  std::vector<AdminRoutes::Route> MakeRoutes();

  /// Passes the settings in force to a model that was just loaded, and pauses the model if the server is paused.
  void OnLoaded(ServedModel& model);

  /// Applies the settings of `now` that differ from `before` (LiveSettings::Follow). The engines receive the settings
  /// soon afterwards.
  void Follow(boost::asio::io_context& io, const Topology& before, const Topology& now);

 private:
  enum class Accepting { kAll, kPaused, kDraining };

  boost::asio::awaitable<HttpResponse> Reshard(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> RestartWorkers(HttpRequest& request);
  /// Replaces the workers of one replica, or of all replicas one after another, and answers when that is done. Without
  /// `shape`, each replica has the same shape as before.
  boost::asio::awaitable<HttpResponse> ReplaceWorkers(ServedModel& model, std::optional<GroupShape> shape,
                                                      std::optional<int64_t> replica);
  boost::asio::awaitable<HttpResponse> Abort(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> Migrate(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> SetLogLevel(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> PatchConfig(HttpRequest& request);
  /// Records a profile of a model's engines and workers for the requested seconds, then answers with the profile. Only
  /// one profile is recorded at a time; a second request gets 409.
  boost::asio::awaitable<HttpResponse> Profile(HttpRequest& request);
  /// Changes settings, and answers when every engine has the changes. Throws as LiveSettings::Change does.
  boost::asio::awaitable<HttpResponse> Change(const Json& changes);
  /// Passes the settings in force to the engines. Logs the changed `keys`, and `by_whom` they were changed: "an
  /// operator" or "SIGHUP".
  boost::asio::awaitable<void> TellEngines(std::vector<std::string> keys, std::string by_whom);
  HttpResponse SetAccepting(Accepting accepting);
  void SetPaused(Replicas& replicas) const;

  ModelRoster& models_;
  LiveSettings& settings_;
  DataPort data_port_;
  bool profiling_ = false, paused_ = false;
};

}  // namespace quire
