#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "coordinator/api/models/model_keeper.h"
#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/http_types.h"
#include "coordinator/metrics/metrics.h"

namespace quire {

/// Makes the page of metrics for Prometheus. Only the I/O thread uses this class.
class MetricsPage {
 public:
  /// `batches` returns the numbers of files and batches, or nullopt when the server has no batch directory. The
  /// references must outlive this object.
  MetricsPage(Metrics& metrics, ModelRoster& models, const ModelKeeper& keeper,
              std::function<std::optional<BatchNumbers>()> batches);

  /// Makes and returns the page with the present numbers.
  boost::asio::awaitable<HttpResponse> Now();

  /// Returns a page that is about a second old at most, so that frequent requests of clients without a key cost little.
  boost::asio::awaitable<HttpResponse> Recent();

 private:
  using Clock = std::chrono::steady_clock;

  boost::asio::awaitable<void> ReadModel(size_t model);

  static constexpr std::chrono::seconds kFresh{1};

  Metrics& metrics_;
  ModelRoster& models_;
  const ModelKeeper& keeper_;
  std::function<std::optional<BatchNumbers>()> batches_;
  HttpResponse last_;
  std::vector<int64_t> loads_;             // each model's number of loads at the last reading
  std::optional<Clock::time_point> when_;  // the time when the rendering of last_ began; nullopt: never
};

/// Returns the limits of connections to the metrics port.
HttpLimits MetricsLimits();

/// Returns the service of the metrics port (metrics.listen), which serves only /metrics, so that a collector's network
/// needs no access to the admin port. `page` is null until the workers are ready, and must outlive the service.
HttpService MetricsService(MetricsPage* const& page);

}  // namespace quire
