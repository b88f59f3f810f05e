#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/api/admin/event_stream.h"
#include "coordinator/api/admin/request_report.h"
#include "coordinator/api/http/http_types.h"
#include "coordinator/api/http/routes.h"
#include "coordinator/api/http/work_pool.h"
#include "coordinator/cluster/replicas/replicas.h"

namespace quire {

/// What the admin port tells of requests, blocks, the cluster and the settings. Engines' threads only take down what
/// they have; it is spelled out on the pool. One thread: the I/O thread.
class AdminReports {
 public:
  using Handler = std::function<boost::asio::awaitable<HttpResponse>(HttpRequest&, HttpResponder&)>;

  /// `topology`: with the limits that hold in this process. All of them outlive this object.
  AdminReports(const Topology& topology, Replicas& replicas, WorkPool& pool);

  /// Whose handlers refer to this object. A handler that has streamed its answer returns one that is not to be sent.
  std::vector<Routes<Handler>::Route> MakeRoutes();

 private:
  boost::asio::awaitable<HttpResponse> RequestsPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> RequestPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> BlockMapPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> ConfigPage();
  boost::asio::awaitable<HttpResponse> TopologyPage();
  boost::asio::awaitable<HttpResponse> EventsPage(HttpRequest& request, HttpResponder& responder);

  /// Of one replica, or of all below 0; `limit` requests of each.
  boost::asio::awaitable<std::vector<RequestsView>> Collect(int replica, const RequestFilter& filter);
  boost::asio::awaitable<HttpResponse> Spell(HttpResponder& responder,
                                             std::function<std::string(const std::stop_token&)> spell);

  const Topology& topology_;
  Replicas& replicas_;
  WorkPool& pool_;
  EventStream events_;
};

}  // namespace quire
