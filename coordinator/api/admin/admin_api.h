#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "coordinator/api/admin/admin_control.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/admin/history_recorder.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/cluster/replicas/replicas.h"
#include "coordinator/http/work_pool.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// The limits of the admin port's connections. They are few, because operators are few: connections of all ports
/// together must stay within the descriptors that clients leave free (process_limits.h).
HttpLimits AdminLimits();

/// The handlers of the admin port: reports, control, cache and pins. Each replica's part of an answer shows one moment
/// between two steps.
class AdminApi {
 public:
  struct Options {
    AdminReports::Server server;
    std::function<std::string(const std::string&)> client_of_key;  // the data port's Gate::ClientOf
  };
  /// The pool must be stopped before this object goes.
  AdminApi(Options options, Replicas& replicas, MetricsPage& metrics, HistoryRecorder& history,
           const Tokenizer& tokenizer, AdminControl& control, WorkPool& pool);

  /// Returns 404 or 405 for a request without an endpoint, from its head alone.
  std::optional<HttpResponse> Admit(const HttpRequest& head) const { return routes_.Refusal(head); }
  boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder);
  /// The pattern of a path's endpoint, as metrics label it; "none" when the path has no endpoint.
  std::string_view RouteOf(std::string_view path) const { return routes_.PatternOf(path); }

 private:
  using EngineTask = std::function<std::string(Engine&)>;

  AdminRoutes MakeRoutes();
  boost::asio::awaitable<HttpResponse> Pin(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> Unpin(const HttpRequest& request);
  boost::asio::awaitable<HttpResponse> FlushCaches();
  boost::asio::awaitable<HttpResponse> HelpPage();
  static boost::asio::awaitable<HttpResponse> DashboardFile(const std::string& path);

  const std::function<std::string(const std::string&)> client_of_key_;
  Replicas& replicas_;
  MetricsPage& metrics_;
  HistoryRecorder& history_;
  const Tokenizer& tokenizer_;
  AdminControl& control_;
  WorkPool& pool_;
  AdminReports reports_;
  AdminRoutes routes_;
};

}  // namespace quire
