#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/api/http/request_record.h"

namespace prometheus {
class Registry;
}

namespace quire {

/// Metrics of HTTP requests on both ports, under the names of instrumented Python servers. Used on the I/O thread only.
class HttpMetrics {
 public:
  explicit HttpMetrics(prometheus::Registry& registry);
  ~HttpMetrics();

  /// `route` is the endpoint's pattern, or "none". It must never come from a client, because every label value creates
  /// a series that is never removed.
  void Observe(std::string_view route, const RequestRecord& record);

 private:
  struct Endpoint;
  prometheus::Registry& registry_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Endpoint>> endpoints_;  // by route and method
};

}  // namespace quire
