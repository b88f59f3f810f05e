#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/batches/batch_pages.h"
#include "coordinator/api/batches/batch_runner.h"
#include "coordinator/api/batches/file_pages.h"
#include "coordinator/api/openai/data_port.h"
#include "coordinator/metrics/batch_numbers.h"

namespace quire {

/// The most bytes of a body that uploads a file: the file's bytes, and 64 KiB for the form around them.
inline constexpr size_t kUploadBodyBytes = StoreLimits().file_bytes + (64 << 10);

/// All endpoints of /v1/files and /v1/batches, and the runner of batches. Only the I/O thread uses this class.
class BatchService {
 public:
  /// store: null when the server has no batch directory; every endpoint then answers 404. may_run: tells whether a
  /// client's key may still generate. memory: counts the bytes that requests hold. concurrency: the most requests of
  /// batches that run at the same time. The references must outlive this object. Stop the pool, which has one thread,
  /// before destroying this object.
  BatchService(BatchStore* store, WorkPool& disk, ByteBudget& memory, int concurrency,
               std::function<bool(const std::string&)> may_run);

  std::vector<Routes<DataHandler>::Route> MakeRoutes();
  /// Prepares the upload of a file from the request's head. Call it for every request, before DataPort::Admit. Returns
  /// the refusal; nullopt: the data port handles the request.
  std::optional<HttpResponse> Admit(HttpRequest& head);
  /// Runs batches from now on. The port must outlive the coroutines on `io`.
  void Begin(const boost::asio::any_io_executor& io, DataPort& port);
  /// Returns the numbers of files and batches; nullopt when the server has no batch directory.
  std::optional<BatchNumbers> Numbers() const;
  /// Returns the batches of all clients. Throws ApiError 404 when the server has no batch directory.
  boost::asio::awaitable<BatchViews> Views(BatchFilter filter) const;

 private:
  BatchStore* store_;
  WorkPool& disk_;
  std::unique_ptr<LinePort> port_;  // null before Begin()
  std::optional<BatchRunner> runner_;
  std::optional<FilePages> files_;
  std::optional<BatchPages> batches_;
};

}  // namespace quire
