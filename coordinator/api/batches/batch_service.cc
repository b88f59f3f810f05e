#include "coordinator/api/batches/batch_service.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/api/batches/on_disk.h"

// g++ 12 miscompiles some co_await expressions, so the coroutines in this file avoid such expressions
// (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr const char* kAdminShare = "(admin)";  // operators' account for disk work; no API key can have this name

ApiError NothingIsKept() {
  return {404, "files and batches are not kept here: start the server with --batch-dir DIR (batches.dir)"};
}

/// Returns the endpoints of a server without a batch directory: each answers 404 and names the remedy.
std::vector<Routes<DataHandler>::Route> RefusingRoutes() {
  const auto refuse = At([](const HttpRequest&) -> HttpResponse { throw NothingIsKept(); });
  std::vector<Routes<DataHandler>::Route> routes;
  for (const char* path : {"/v1/files", "/v1/files/*", "/v1/batches", "/v1/batches/*"}) {
    for (const char* method : {"GET", "POST", "DELETE"}) routes.push_back({method, path, refuse});
  }
  return routes;
}

/// The data port in the form in which a BatchRunner uses it.
class LinesOnDataPort : public LinePort {
 public:
  explicit LinesOnDataPort(DataPort& port) : port_(port) {}

  std::optional<HttpResponse> Admit(HttpRequest& head) override { return port_.Admit(head); }
  asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder) override {
    return port_.Handle(request, responder);
  }
  int num_pending_of_others() const override { return port_.num_pending_of_others(); }
  bool draining() const override { return port_.draining(); }

 private:
  DataPort& port_;
};

}  // namespace

BatchService::BatchService(BatchStore* store, WorkPool& disk, ByteBudget& memory, int concurrency,
                           std::function<bool(const std::string&)> may_run)
    : store_(store), disk_(disk) {
  if (store == nullptr) return;
  runner_.emplace(*store, disk, memory, concurrency, std::move(may_run));
  files_.emplace(*store, disk);
  batches_.emplace(*store, disk, [this] { runner_->Wake(); });
}

std::vector<Routes<DataHandler>::Route> BatchService::MakeRoutes() {
  if (store_ == nullptr) return RefusingRoutes();
  std::vector<Routes<DataHandler>::Route> routes = files_->MakeRoutes();
  std::ranges::move(batches_->MakeRoutes(), std::back_inserter(routes));
  return routes;
}

std::optional<HttpResponse> BatchService::Admit(HttpRequest& head) {
  if (head.method != "POST" || head.path != kUploadPath) return std::nullopt;
  if (store_ == nullptr) return ErrorResponse(NothingIsKept());
  try {
    files_->BeginUpload(head);
  } catch (const ApiError& error) {
    return ErrorResponse(error);
  }
  return std::nullopt;
}

void BatchService::Begin(const asio::any_io_executor& io, DataPort& port) {
  if (!runner_) return;
  port_ = std::make_unique<LinesOnDataPort>(port);
  runner_->Begin(io, *port_);
}

asio::awaitable<BatchViews> BatchService::Views(BatchFilter filter) const {
  if (store_ == nullptr) throw NothingIsKept();
  std::function<BatchViews()> list = [this, filter = std::move(filter)] { return store_->Views(filter); };
  BatchViews views = co_await OnDisk<BatchViews>(disk_, kAdminShare, std::move(list));
  for (BatchView& view : views.batches) runner_->Complete(view);
  co_return views;
}

std::optional<BatchNumbers> BatchService::Numbers() const {
  if (store_ == nullptr) return std::nullopt;
  const StoreTotals totals = store_->totals();
  BatchNumbers numbers{.files = totals.files,
                       .bytes = totals.bytes,
                       .max_bytes = store_->limits().bytes,
                       .running_requests = runner_->in_flight(),
                       .completed_requests = totals.completed,
                       .failed_requests = totals.failed};
  for (int i = 0; i < kBatchStatuses; ++i) {
    const auto status = static_cast<BatchStatus>(i);
    numbers.batches.emplace_back(NameOf(status), totals.batches[static_cast<size_t>(i)]);
  }
  return numbers;
}

}  // namespace quire
