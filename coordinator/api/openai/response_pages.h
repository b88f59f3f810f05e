#pragma once

#include <string>
#include <vector>

#include "coordinator/api/openai/data_handler.h"
#include "coordinator/api/openai/page_api.h"
#include "coordinator/api/openai/response_store.h"
#include "coordinator/api/requests/responses/responses_request.h"
#include "coordinator/http/routes.h"

namespace quire {

/// The endpoints that read and delete stored answers of /v1/responses, and the lookup for later requests. A client sees
/// only its own answers. Only the I/O thread uses this class.
class ResponsePages {
 public:
  explicit ResponsePages(PageApi::Charge charge) : charge_(std::move(charge)) {}

  std::vector<Routes<DataHandler>::Route> MakeRoutes();

  /// Returns a function that finds the client's stored answers. The returned function is callable from any thread, and
  /// must not outlive this object. `items`: the function may also look up single items; the request is charged for
  /// their bytes.
  FindKept FinderFor(const std::string& client, bool items);
  ResponseStore& store() { return store_; }

 private:
  HttpResponse Get(HttpRequest& request);
  HttpResponse ListInput(HttpRequest& request);
  HttpResponse Delete(const HttpRequest& request);

  PageApi::Charge charge_;
  ResponseStore store_{{}};
};

}  // namespace quire
