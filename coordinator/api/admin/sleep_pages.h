#pragma once

#include <set>
#include <string>
#include <vector>

#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/models/model_keeper.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/api/openai/data_port.h"

namespace quire {

/// vLLM's endpoints /sleep, /wake_up and /is_sleeping. The query's `model` names a model; a request without `model` is
/// about all models. The admin port has these endpoints. The data port has the same endpoints for clients with an admin
/// token (Gate::LeaveToOperators). Only the I/O thread uses this class.
class SleepPages {
 public:
  /// The references must outlive this object.
  SleepPages(ModelRoster& models, ModelKeeper& keeper) : models_(models), keeper_(keeper) {}

  static std::set<std::string> Paths();
  /// The functions return the routes of each port; their handlers refer to this object.
  std::vector<AdminRoutes::Route> RoutesOfAdminPort();
  std::vector<Routes<DataHandler>::Route> RoutesOfDataPort();

 private:
  boost::asio::awaitable<HttpResponse> Sleep(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> WakeUp(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> IsSleeping(HttpRequest& request);

  ModelRoster& models_;
  ModelKeeper& keeper_;
};

}  // namespace quire
