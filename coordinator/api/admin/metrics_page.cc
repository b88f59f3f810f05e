#include "coordinator/api/admin/metrics_page.h"

#include <utility>

#include "coordinator/api/admin/replica_report.h"
#include "coordinator/http/routes.h"

namespace quire {

namespace asio = boost::asio;

MetricsPage::MetricsPage(Metrics& metrics, Replicas& replicas, std::function<std::optional<BatchNumbers>()> batches)
    : metrics_(metrics), replicas_(replicas), batches_(std::move(batches)) {}

asio::awaitable<HttpResponse> MetricsPage::Now() {
  std::vector<std::optional<ReplicaSnapshot>> snapshots(static_cast<size_t>(replicas_.size()));
  for (int index = 0; index < replicas_.size(); ++index) {
    ReplicaSnapshot snapshot = co_await SnapshotOf(replicas_.at(index));
    snapshots[static_cast<size_t>(index)] = std::move(snapshot);
  }
  HttpResponse page;
  page.content_type = "text/plain; version=0.0.4; charset=utf-8";
  const KvDisk* disk = replicas_.disk();
  const auto stored = disk == nullptr ? std::nullopt : std::optional(disk->counts());
  page.body = metrics_.Page(snapshots, replicas_.migrations().counts(), batches_(), stored);
  co_return page;
}

asio::awaitable<HttpResponse> MetricsPage::Recent() {
  const auto now = Clock::now();
  if (!when_ || now - *when_ > kFresh) {
    when_ = now;  // set before the page is made: requests meanwhile get the last page
    HttpResponse page = co_await Now();
    last_ = std::move(page);
  }
  co_return last_;
}

HttpLimits MetricsLimits() {
  HttpLimits limits;
  // The port needs no key, so it has few connections with short timeouts: none keeps a collector out for long.
  limits.chosen.connections = 64;
  limits.chosen.connections_per_address = 16;
  limits.chosen.head_seconds = limits.chosen.idle_seconds = 5;
  return limits;
}

HttpService MetricsService(MetricsPage* const& page) {
  const Routes<bool> routes({{"GET", "/metrics", true}});
  const auto admit = [&page, routes](HttpRequest& head) {
    return page == nullptr ? ErrorResponse(503, "the workers are not ready yet") : routes.Refusal(head);
  };
  const auto handle = [&page](HttpRequest&, HttpResponder& responder) -> asio::awaitable<void> {
    HttpResponse response = co_await page->Recent();
    co_await responder.Send(std::move(response));
  };
  return {admit, handle};
}

}  // namespace quire
