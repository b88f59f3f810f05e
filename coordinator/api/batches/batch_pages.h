#pragma once

#include <functional>
#include <vector>

#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/openai/data_handler.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// The endpoints of /v1/batches. Only the I/O thread uses this class; the store is used on the disk's thread.
class BatchPages {
 public:
  /// Calls `changed` after a batch was created or cancelled. The references must outlive this object. Stop the pool
  /// before this object is destroyed.
  BatchPages(BatchStore& store, WorkPool& disk, std::function<void()> changed)
      : store_(store), disk_(disk), changed_(std::move(changed)) {}

  std::vector<Routes<DataHandler>::Route> MakeRoutes();

 private:
  /// Runs `work` on the disk's thread and answers with its result, a JSON text. `changes`: true if changed_ must be
  /// called afterwards.
  boost::asio::awaitable<void> Answer(HttpRequest& request, HttpResponder& responder, std::function<std::string()> work,
                                      bool changes);
  boost::asio::awaitable<void> Create(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<void> List(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<void> Get(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<void> Cancel(HttpRequest& request, HttpResponder& responder);

  BatchStore& store_;
  WorkPool& disk_;
  std::function<void()> changed_;
};

}  // namespace quire
