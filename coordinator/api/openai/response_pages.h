#pragma once

#include <string>
#include <vector>

#include "coordinator/api/http/routes.h"
#include "coordinator/api/openai/data_handler.h"
#include "coordinator/api/openai/page_api.h"
#include "coordinator/api/openai/response_store.h"
#include "coordinator/api/requests/responses_request.h"

namespace quire {

/// Answers of /v1/responses after they were given: looked at, forgotten, gone on from; each by its own client alone.
/// One thread: the I/O thread.
class ResponsePages {
 public:
  explicit ResponsePages(PageApi::Charge charge) : charge_(std::move(charge)) {}

  std::vector<Routes<DataHandler>::Route> MakeRoutes();

  /// From any thread; outlived by this object. items: single items may be asked for, which the request is charged for.
  FindKept FinderFor(const std::string& client, bool items);
  ResponseStore& store() { return store_; }

 private:
  HttpResponse Get(HttpRequest& request);
  HttpResponse Delete(const HttpRequest& request);

  PageApi::Charge charge_;
  ResponseStore store_{{}};
};

}  // namespace quire
