#include "coordinator/api/admin/history_recorder.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/admin/replica_report.h"
#include "coordinator/api/requests/query_fields.h"
#include "coordinator/http/await_token.h"
#include "coordinator/metrics/host_usage.h"

namespace quire {

namespace asio = boost::asio;

namespace {

void AddTo(std::vector<CountedBucket>& sums, const std::vector<CountedBucket>& more) {
  if (sums.empty()) sums.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) {
    sums[i].bound = more[i].bound;
    sums[i].at_most += more[i].at_most;
  }
}

}  // namespace

HistoryRecorder::HistoryRecorder(Metrics& metrics, ModelRoster& models) : metrics_(metrics), models_(models) {}

void HistoryRecorder::Start(asio::io_context& io) { asio::co_spawn(io, Run(), asio::detached); }

asio::awaitable<void> HistoryRecorder::AddModel(size_t model, HistoryReading& reading) {
  const auto workers = models_.at(model).Hold();
  if (workers == nullptr) co_return;
  Replicas& replicas = workers->replicas();
  for (int r = 0; r < replicas.size(); ++r) {
    const ReplicaSnapshot replica = co_await SnapshotOf(replicas.at(r));
    reading.running += replica.running;
    reading.waiting += replica.waiting;
    reading.blocks += replica.blocks.total;
    reading.used_blocks += replica.blocks.held;
    reading.cached_blocks += replica.blocks.cached;
    reading.generated_tokens += replica.stats.generated_tokens;
  }
}

asio::awaitable<HistoryReading> HistoryRecorder::Read() {
  HistoryReading reading;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  reading.time = now.count();
  for (size_t model = 0; model < models_.size(); ++model) {
    co_await AddModel(model, reading);
    AddTo(reading.first_token, metrics_.calls(model).FirstTokenBuckets());
    AddTo(reading.inter_token, metrics_.calls(model).InterTokenBuckets());
  }
  const HostUsage usage = ReadHostUsage();
  reading.cores_seconds = usage.process_seconds;
  reading.resident_bytes = usage.resident_bytes;
  reading.host_busy_seconds = usage.host_busy_seconds;
  reading.host_seconds = usage.host_seconds;
  reading.host_used_bytes = usage.host_used_bytes;
  reading.host_bytes = usage.host_bytes;
  reading.refused = metrics_.http().refused();
  reading.failed = metrics_.http().failed();
  co_return reading;
}

asio::awaitable<void> HistoryRecorder::Run() {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  for (;;) {
    try {
      HistoryReading reading = co_await Read();
      history_.Add(std::move(reading));
    } catch (const std::exception&) {  // the replica is ending; the next reading may find a new one
    }
    timer.expires_after(History::kPeriod);
    const auto [ended] = co_await timer.async_wait(kToken);
    if (ended) co_return;
  }
}

asio::awaitable<HttpResponse> HistoryRecorder::Page(const HttpRequest& request) const {
  const QueryFields query(request.query, {"since"});
  const int64_t since = query.Integer("since", 0, std::numeric_limits<int64_t>::max()).value_or(0);
  HttpResponse response;
  response.body = DumpJson(history_.Report(static_cast<double>(since) / 1000));
  co_return response;
}

}  // namespace quire
