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

/// Requests of both ports, under the names that instrumented Python servers use. Of the I/O thread.
class HttpMetrics {
 public:
  explicit HttpMetrics(prometheus::Registry& registry);
  ~HttpMetrics();

  /// `route`: the pattern of the endpoint, "none" where there was none; never what a client chose, since every value of
  /// a label is a series for ever.
  void Observe(std::string_view route, const RequestRecord& record);

 private:
  struct Endpoint;
  prometheus::Registry& registry_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Endpoint>> endpoints_;  // by route and method
};

}  // namespace quire
