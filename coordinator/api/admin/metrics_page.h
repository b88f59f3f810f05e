#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "coordinator/api/http/http_types.h"
#include "coordinator/cluster/replicas/replicas.h"
#include "coordinator/metrics/metrics.h"

namespace quire {

/// The page for Prometheus. Of the I/O thread.
class MetricsPage {
 public:
  /// batches: what is told of batches. All outlive it.
  MetricsPage(Metrics& metrics, Replicas& replicas, std::function<std::optional<BatchNumbers>()> batches);

  /// The page as it is at this moment.
  boost::asio::awaitable<HttpResponse> Now();

  /// For whoever may ask without a key: a page that may be a second old, however often it is asked for.
  boost::asio::awaitable<HttpResponse> Recent();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFresh{1};

  Metrics& metrics_;
  Replicas& replicas_;
  std::function<std::optional<BatchNumbers>()> batches_;
  HttpResponse last_;
  std::optional<Clock::time_point> when_;  // it was begun; absent: never
};

/// Limits of connections to the port for metrics.
HttpLimits MetricsLimits();

/// The port that serves the page and nothing else (metrics.listen): it can be opened to a collector's network without
/// opening the admin port. `page` is null until the workers are ready, and outlives the service.
HttpService MetricsService(MetricsPage* const& page);

}  // namespace quire
