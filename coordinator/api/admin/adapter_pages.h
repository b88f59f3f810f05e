#pragma once

#include <set>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/api/openai/data_handler.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// The endpoints with which operators load and unload LoRA adapters while the server runs. Paths, fields and answers
/// are vLLM's. The admin port has these endpoints. The data port has the same endpoints for clients with an admin token
/// (Gate::LeaveToOperators). Only the I/O thread uses this class.
class AdapterPages {
 public:
  /// The references must outlive this object. Stop the pool before destroying this object.
  AdapterPages(ModelRoster& models, WorkPool& pool) : models_(models), pool_(pool) {}

  static std::set<std::string> Paths();
  std::vector<AdminRoutes::Route> RoutesOfAdminPort();
  std::vector<Routes<DataHandler>::Route> RoutesOfDataPort();

 private:
  boost::asio::awaitable<HttpResponse> Load(HttpRequest& request, HttpResponder& responder);
  HttpResponse Unload(const HttpRequest& request);

  ModelRoster& models_;
  WorkPool& pool_;
  std::set<std::string> coming_;  // names that are being loaded
};

/// Returns a part of /admin/status: the adapters that were loaded while serving, and the bytes of all adapters that
/// ranks still hold.
Json AdaptersJson(const AdapterShelf& shelf);

}  // namespace quire
