#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/batches/batch_pages.h"
#include "coordinator/api/batches/batch_runner.h"
#include "coordinator/api/batches/file_pages.h"
#include "coordinator/metrics/batch_numbers.h"

namespace quire {

/// Most bytes of a body that uploads a file: the file, and the form around the file.
inline constexpr size_t kUploadBodyBytes = StoreLimits().file_bytes + (64 << 10);

/// /v1/files and /v1/batches as a whole. One thread: the I/O thread.
class BatchService {
 public:
  /// store: null where no directory was given; then every endpoint says so. may_run: whether a client may still come.
  /// The references outlive this object; the pool, of one thread, must be stopped before it goes.
  BatchService(BatchStore* store, WorkPool& disk, int concurrency, std::function<bool(const std::string&)> may_run);

  std::vector<Routes<DataHandler>::Route> MakeRoutes();
  /// Sees every head before the data port does. Returns the refusal; nullopt when the data port may serve the request.
  std::optional<HttpResponse> Admit(HttpRequest& head);
  /// Runs batches from now on. The port must outlive the coroutines on `io`.
  void Begin(const boost::asio::any_io_executor& io, DataPort& port);
  /// Returns nullopt when the server has no batch directory.
  std::optional<BatchNumbers> Numbers() const;
  /// The batches of all clients. Throws ApiError 404 when the server has no batch directory.
  boost::asio::awaitable<BatchViews> Views(BatchFilter filter) const;

 private:
  BatchStore* store_;
  WorkPool& disk_;
  std::optional<BatchRunner> runner_;
  std::optional<FilePages> files_;
  std::optional<BatchPages> batches_;
};

}  // namespace quire
