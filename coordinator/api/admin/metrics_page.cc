#include "coordinator/api/admin/metrics_page.h"

#include <utility>

#include "coordinator/api/admin/replica_report.h"
#include "coordinator/http/routes.h"

namespace quire {

namespace asio = boost::asio;

MetricsPage::MetricsPage(Metrics& metrics, ModelRoster& models, const ModelKeeper& keeper,
                         std::function<std::optional<BatchNumbers>()> batches)
    : metrics_(metrics), models_(models), keeper_(keeper), batches_(std::move(batches)), loads_(models.size()) {}

/// Copies one model's numbers into the metrics. If the model has no workers, or if its workers were started since the
/// last call, the counters of its workers begin at zero again.
asio::awaitable<void> MetricsPage::ReadModel(size_t model) {
  const ServedModel& served = models_.at(model);
  const ModelKeeper::Report report = keeper_.ReportOf(served);
  metrics_.Update(model, {NameOf(served.state()), report.waiting, report.loads, report.failures, report.load_seconds,
                          served.kv_bytes() > 0 ? served.bytes() : 0});
  const auto workers = served.Hold();
  if (workers == nullptr || report.loads != loads_[model]) metrics_.Forget(model);
  loads_[model] = report.loads;
  if (workers == nullptr) co_return;
  Replicas& replicas = workers->replicas();
  for (int r = 0; r < replicas.size(); ++r) {
    const ReplicaSnapshot snapshot = co_await SnapshotOf(replicas.at(r));
    metrics_.Update(model, r, snapshot);
  }
  metrics_.Update(model, replicas.migrations().counts());
  if (const KvDisk* disk = replicas.disk()) metrics_.Update(model, disk->counts());
}

asio::awaitable<HttpResponse> MetricsPage::Now() {
  for (size_t model = 0; model < models_.size(); ++model) co_await ReadModel(model);
  HttpResponse page;
  page.content_type = "text/plain; version=0.0.4; charset=utf-8";
  page.body = metrics_.Page(batches_());
  co_return page;
}

asio::awaitable<HttpResponse> MetricsPage::Recent() {
  const auto now = Clock::now();
  if (!when_ || now - *when_ > kFresh) {
    when_ = now;  // set before the page is made, so that requests meanwhile get the previous page
    HttpResponse page = co_await Now();
    last_ = std::move(page);
  }
  co_return last_;
}

HttpLimits MetricsLimits() {
  HttpLimits limits;
  // The port needs no key. It accepts few connections, which time out soon, so no client shuts a collector out for
  // long.
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
