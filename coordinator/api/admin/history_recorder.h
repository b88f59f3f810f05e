#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/http_types.h"
#include "coordinator/metrics/history.h"
#include "coordinator/metrics/metrics.h"

namespace quire {

/// Samples the server's metrics every History::kPeriod, so that a dashboard that is opened later shows the past. Only
/// the I/O thread uses this class.
class HistoryRecorder {
 public:
  /// `metrics` and `models` must outlive this object.
  HistoryRecorder(Metrics& metrics, ModelRoster& models);

  /// Begins to sample, on the thread of `io`, until `io` ends. This object must outlive the run of `io`. Any thread may
  /// call it.
  void Start(boost::asio::io_context& io);
  /// Answers GET /admin/history with the samples that were taken after the query's `since` (milliseconds since 1970),
  /// or with all samples when the query has no `since`.
  boost::asio::awaitable<HttpResponse> Page(const HttpRequest& request) const;

 private:
  boost::asio::awaitable<void> Run();
  boost::asio::awaitable<HistoryReading> Read();
  boost::asio::awaitable<void> AddModel(size_t model, HistoryReading& reading);

  Metrics& metrics_;
  ModelRoster& models_;
  History history_;
};

}  // namespace quire
