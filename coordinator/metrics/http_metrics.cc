#include "coordinator/metrics/http_metrics.h"

#include "coordinator/metrics/series.h"

namespace quire {

namespace {

constexpr double kSeconds[] = {.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300};

/// "2xx"; "gone" when the client left before there was an answer.
std::string StatusClass(int status) { return status == 0 ? "gone" : std::to_string(status / 100) + "xx"; }

/// Methods are what clients write: those that no endpoint knows share a name.
std::string MethodLabel(const std::string& method) {
  for (const char* known : {"GET", "HEAD", "POST", "OPTIONS"}) {
    if (method == known) return method;
  }
  return "other";
}

}  // namespace

struct HttpMetrics::All {
  Series series;
};

HttpMetrics::HttpMetrics(prometheus::Registry& registry) : all_(new All{Series(registry, {})}) {}

HttpMetrics::~HttpMetrics() = default;

void HttpMetrics::Observe(std::string_view route, const RequestRecord& record) {
  const Series of_route = all_->series.With("handler", std::string(route)).With("method", MethodLabel(record.method));
  of_route.With("status", StatusClass(record.status)).Counter("http_requests_total", "Answered requests").Increment();
  of_route.Histogram("http_request_duration_seconds", "From a request's head to the end of its answer", kSeconds)
      .Observe(record.seconds);
  of_route.Counter("http_response_size_bytes_total", "Bytes of answers, with their heads")
      .Increment(static_cast<double>(record.bytes));
}

}  // namespace quire
