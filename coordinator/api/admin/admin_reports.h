#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/admin/event_stream.h"
#include "coordinator/api/admin/live_settings.h"
#include "coordinator/api/admin/request_report.h"
#include "coordinator/api/models/model_keeper.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/byte_budget.h"
#include "coordinator/http/work_pool.h"
#include "coordinator/metrics/batch_numbers.h"
#include "coordinator/metrics/batch_view.h"

namespace quire {

/// The client name of the admin port's jobs in the work pool. No API key can have this name.
inline constexpr const char* kPoolClient = "(admin)";

/// The handlers of the admin port's reports about one model (requests, blocks, ranks, settings, events) and about the
/// server's batches. The engine's thread only copies the data of a report. The pool makes texts whose size grows with
/// requests or blocks; the I/O thread makes other texts. Only the I/O thread uses this class.
class AdminReports {
 public:
  /// The parts of the server, besides its replicas, that the reports show.
  struct Server {
    const LiveSettings& settings;                          // the settings in force
    const ModelKeeper& keeper;                             // for reports of the models that are loaded
    std::vector<std::string> warnings;                     // protections that are switched off
    const ByteBudget& request_memory;                      // the memory that requests of the data port hold
    std::function<std::optional<BatchNumbers>()> batches;  // returns nullopt when the server has no batch directory
    std::function<boost::asio::awaitable<BatchViews>(BatchFilter)> list_batches;  // ApiError without batches
  };
  /// `model`: the index of the model that the reports are about. The references must outlive this object.
  AdminReports(const Server& server, ModelRoster& models, size_t model, WorkPool& pool);

  /// Returns the routes; their handlers refer to this object.
  std::vector<AdminRoutes::Route> MakeRoutes();

 private:
  boost::asio::awaitable<HttpResponse> StatusPage(HttpRequest& request, HttpResponder& responder);
  void AddServer(Json& page) const;
  boost::asio::awaitable<HttpResponse> BlocksPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> RequestsPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> RequestPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> BatchesPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> BlockMapPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> ConfigPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> TopologyPage(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> EventsPage(HttpRequest& request, HttpResponder& responder);

  Topology SettingsOfModel() const;
  Replicas& replicas() { return model_.replicas(); }
  /// Returns at most filter.limit requests for each replica. A negative `replica` asks for all replicas.
  boost::asio::awaitable<std::vector<RequestsView>> Collect(int replica, const RequestFilter& filter);
  boost::asio::awaitable<HttpResponse> Spell(HttpResponder& responder,
                                             std::function<std::string(const std::stop_token&)> spell);

  const Server server_;
  ModelRoster& models_;
  ServedModel& model_;
  WorkPool& pool_;
  EventStream events_;
};

}  // namespace quire
