#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/admin/adapter_pages.h"
#include "coordinator/api/admin/admin_control.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/admin/history_recorder.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/api/admin/model_control.h"
#include "coordinator/api/admin/pin_pages.h"
#include "coordinator/api/admin/sleep_pages.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// Returns the limits of the admin port's connections. The limits are low, because the connections of all ports
/// together must stay within the file descriptors of the process (process_limits.h).
HttpLimits AdminLimits();

/// The HTTP handlers of the admin port: the dashboard, metrics, reports about the server, changes of the running
/// server, and orders about models, adapters and prefix caches. Each replica's part of an answer shows the replica's
/// state at one moment between two steps.
class AdminApi {
 public:
  struct Options {
    AdminReports::Server server;
    std::function<std::string(const std::string&)> client_of_key;  // the data port's Gate::ClientOf
    AdapterPages& adapters;
    SleepPages& sleep;
  };
  /// Stop the pool before destroying this object.
  AdminApi(Options options, ModelRoster& models, MetricsPage& metrics, HistoryRecorder& history, AdminControl& control,
           ModelKeeper& keeper, WorkPool& pool);

  /// Returns an error 404 or 405 when no endpoint has the request's path or method; otherwise nullopt. Needs only the
  /// request's head.
  std::optional<HttpResponse> Admit(const HttpRequest& head) const { return routes_.Refusal(head); }
  boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder);
  /// Returns the route pattern of the endpoint that has this path, such as /admin/models/*, as a label for metrics;
  /// "none" when no endpoint has the path.
  std::string_view RouteOf(std::string_view path) const { return routes_.PatternOf(path); }

 private:
  using EngineTask = std::function<std::string(Engine&)>;

  AdminRoutes MakeRoutes();
  std::vector<AdminRoutes::Route> RoutesOfReports();
  boost::asio::awaitable<HttpResponse> FlushCaches(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> HelpPage();
  static boost::asio::awaitable<HttpResponse> DashboardFile(const std::string& path);

  AdapterPages& adapters_;
  SleepPages& sleep_;
  ModelRoster& models_;
  MetricsPage& metrics_;
  HistoryRecorder& history_;
  AdminControl& control_;
  ModelControl model_control_;
  PinPages pins_;
  std::vector<std::unique_ptr<AdminReports>> reports_;  // one for each model
  AdminRoutes routes_;
};

}  // namespace quire
