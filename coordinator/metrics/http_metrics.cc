#include "coordinator/metrics/http_metrics.h"

#include "coordinator/metrics/series.h"

namespace quire {

namespace {

constexpr double kSeconds[] = {.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300};

/// Returns the label of a status, such as "2xx"; "gone" when the client left before it had an answer.
std::string StatusClass(int status) { return status == 0 ? "gone" : std::to_string(status / 100) + "xx"; }

/// Returns the label of a method. Clients choose the method's text, so all unknown methods share one label.
std::string MethodLabel(const std::string& method) {
  for (const char* known : {"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"}) {
    if (method == known) return method;
  }
  return "other";
}

}  // namespace

/// The series of one endpoint and method.
struct HttpMetrics::Endpoint {
  explicit Endpoint(const Series& s)
      : series(s),
        seconds(
            s.Histogram("http_request_duration_seconds", "From a request's head to the end of its answer", kSeconds)),
        bytes(s.Counter("http_response_size_bytes_total", "Bytes of answers, with their heads")) {}

  prometheus::Counter& Answers(const std::string& status) {
    prometheus::Counter*& answers = answers_by_status[status];
    if (answers == nullptr)
      answers = &series.With("status", status).Counter("http_requests_total", "Answered requests");
    return *answers;
  }

  Series series;
  prometheus::Histogram& seconds;
  prometheus::Counter& bytes;
  std::map<std::string, prometheus::Counter*> answers_by_status;
};

HttpMetrics::HttpMetrics(prometheus::Registry& registry) : registry_(registry) {}

HttpMetrics::~HttpMetrics() = default;

/// Counts a request. Stores the series that it has looked up, because a look-up in the registry takes longer than
/// everything else in this function.
void HttpMetrics::Observe(std::string_view route, const RequestRecord& record) {
  const std::string method = MethodLabel(record.method);
  std::unique_ptr<Endpoint>& endpoint = endpoints_[{std::string(route), method}];
  if (endpoint == nullptr) {
    const Series all(registry_, {});
    endpoint = std::make_unique<Endpoint>(all.With("handler", std::string(route)).With("method", method));
  }
  endpoint->Answers(StatusClass(record.status)).Increment();
  if (route.starts_with("/v1/") && record.status >= 400)
    ++(record.status < 500 || record.status == 503 ? refused_ : failed_);
  endpoint->seconds.Observe(record.seconds);
  endpoint->bytes.Increment(static_cast<double>(record.bytes));
}

}  // namespace quire
