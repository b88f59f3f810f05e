#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "coordinator/api/admin/admin_control.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/admin/history_recorder.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/api/http/work_pool.h"
#include "coordinator/cluster/replicas/replicas.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// Bounds of the admin port's connections. Operators are few; with these the ports together keep to the descriptors
/// that clients leave.
HttpLimits AdminLimits();

/// The admin port: what the server is doing, and the numbers. Answers come from one moment between two steps.
class AdminApi {
 public:
  struct Options {
    AdminReports::Server server;
    std::function<std::string(const std::string&)> client_of_key;  // as the data port's gate names clients
  };
  /// The pool must be stopped before this object goes.
  AdminApi(Options options, Replicas& replicas, MetricsPage& metrics, HistoryRecorder& history,
           const Tokenizer& tokenizer, AdminControl& control, WorkPool& pool);

  /// With the head alone: 404 or 405 where nothing is.
  std::optional<HttpResponse> Admit(const HttpRequest& head) const { return routes_.Refusal(head); }
  boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder);
  /// The endpoint of a path, as metrics name it; "none" where there is none.
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
