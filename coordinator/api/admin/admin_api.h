#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "comm/base/json.h"
#include "coordinator/api/admin/admin_control.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/api/http/byte_budget.h"
#include "coordinator/api/http/http_types.h"
#include "coordinator/api/http/routes.h"
#include "coordinator/api/http/work_pool.h"
#include "coordinator/cluster/replicas/replicas.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// The admin port: what the server is doing, and the numbers. Answers come from one moment between two steps.
class AdminApi {
 public:
  struct Options {
    Topology topology;                                             // with the limits that hold in this process
    std::function<std::string(const std::string&)> client_of_key;  // as the data port's gate names clients
    std::vector<std::string> warnings;                             // protections that are switched off
    const ByteBudget& request_memory;                              // of the data port
  };
  /// The pool must be stopped before this object goes.
  AdminApi(Options options, Replicas& replicas, MetricsPage& metrics, const Tokenizer& tokenizer, AdminControl& control,
           WorkPool& pool);

  /// With the head alone: 404 or 405 where nothing is.
  std::optional<HttpResponse> Admit(const HttpRequest& head) const { return routes_.Refusal(head); }
  boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder);
  /// The endpoint of a path, as metrics name it; "none" where there is none.
  std::string_view RouteOf(std::string_view path) const { return routes_.PatternOf(path); }

 private:
  using Handler = AdminReports::Handler;
  using EngineTask = std::function<std::string(Engine&)>;

  /// The replica that a request names, in its query or its body; the first when it names none.
  int ReplicaOf(const HttpRequest& request) const;
  boost::asio::awaitable<HttpResponse> BlocksPage(int replica, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> Pin(HttpRequest& request, HttpResponder& responder);
  /// What an endpoint does on the engine's thread.
  EngineTask UnpinTask(const HttpRequest& request) const;
  Routes<Handler> MakeRoutes();
  boost::asio::awaitable<HttpResponse> OnReplica(const HttpRequest& request, EngineTask task);
  boost::asio::awaitable<HttpResponse> StatusPage();
  boost::asio::awaitable<HttpResponse> FlushCaches();
  boost::asio::awaitable<HttpResponse> HelpPage();
  static boost::asio::awaitable<HttpResponse> DashboardFile(const std::string& path);
  Json Status(const Engine& engine, int replica) const;

  Options options_;
  Replicas& replicas_;
  MetricsPage& metrics_;
  const Tokenizer& tokenizer_;
  AdminControl& control_;
  WorkPool& pool_;
  AdminReports reports_;
  Routes<Handler> routes_;
};

}  // namespace quire
