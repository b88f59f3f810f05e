#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/api/admin/admin_routes.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// The admin port's endpoints that pin prompts. The cached blocks of a pinned prompt stay in the prefix cache until the
/// pin expires or is removed. With --kv-disk pins have names and outlive the server. Only the I/O thread uses this
/// class.
class PinPages {
 public:
  /// `client_of_key`: the data port's Gate::ClientOf. The references must outlive this object.
  PinPages(std::function<std::string(const std::string&)> client_of_key, ModelRoster& models, WorkPool& pool)
      : client_of_key_(std::move(client_of_key)), models_(models), pool_(pool) {}

  /// Returns the routes; their handlers refer to this object.
  std::vector<AdminRoutes::Route> MakeRoutes();

 private:
  boost::asio::awaitable<HttpResponse> Pin(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<HttpResponse> Unpin(HttpRequest& request);
  boost::asio::awaitable<HttpResponse> List(HttpRequest& request);

  const std::function<std::string(const std::string&)> client_of_key_;
  ModelRoster& models_;
  WorkPool& pool_;
};

}  // namespace quire
