#pragma once

#include <boost/asio/awaitable.hpp>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/models/model_keeper.h"
#include "coordinator/api/models/model_roster.h"

namespace quire {

/// Returns the state of every model, its size and its requests, as /admin/status and /admin/models list them.
Json ModelsJson(const ModelRoster& models, const ModelKeeper& keeper);

/// The handlers by which an operator loads and unloads models, puts them to sleep and wakes them. Only the I/O thread
/// uses this class.
class ModelControl {
 public:
  /// The references must outlive this object.
  ModelControl(ModelRoster& models, ModelKeeper& keeper) : models_(models), keeper_(keeper) {}

  /// Returns the routes; their handlers refer to this object.
  std::vector<AdminRoutes::Route> MakeRoutes();

 private:
  boost::asio::awaitable<HttpResponse> List() const;
  /// Handles POST /admin/models/NAME/VERB. Answers when the model is in the state that the verb asks for.
  boost::asio::awaitable<HttpResponse> Obey(HttpRequest& request, HttpResponder& responder);

  ModelRoster& models_;
  ModelKeeper& keeper_;
};

}  // namespace quire
