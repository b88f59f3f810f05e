#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/http/request_record.h"

namespace prometheus {
class Registry;
}

namespace quire {

/// Metrics of HTTP requests on the data port and the admin port. Their names are those of Python servers that export
/// metrics to Prometheus, such as http_requests_total. Only the I/O thread uses this class.
class HttpMetrics {
 public:
  explicit HttpMetrics(prometheus::Registry& registry);
  ~HttpMetrics();

  /// Counts a request. `route` is the endpoint's pattern, or "none"; it must never come from a client, because every
  /// label value creates a series that is never removed.
  void Observe(std::string_view route, const RequestRecord& record);

  /// Return how many answers of the endpoints /v1/... since the server's start were refusals (4xx and 503), and how
  /// many were failures (other 5xx).
  int64_t refused() const { return refused_; }
  int64_t failed() const { return failed_; }

 private:
  struct Endpoint;
  prometheus::Registry& registry_;
  int64_t refused_ = 0, failed_ = 0;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Endpoint>> endpoints_;  // keyed by route and method
};

}  // namespace quire
