#include "coordinator/metrics/batch_metrics.h"

namespace quire {

namespace {

constexpr const char* kRequests = "quire:batch_requests_total";
constexpr const char* kRequestsHelp = "Requests of batches whose result was recorded, by result";

}  // namespace

BatchMetrics::BatchMetrics(prometheus::Registry& registry)
    : series_(registry, {}),
      files_(series_.Gauge("quire:batch_files", "Files that are kept in --batch-dir")),
      bytes_(series_.Gauge("quire:batch_bytes", "Bytes of the files and results that are kept in --batch-dir")),
      max_bytes_(series_.Gauge("quire:batch_bytes_limit", "Bytes that may be kept there (--batch-max-bytes)")),
      running_(series_.Gauge("quire:batch_requests_running", "Requests of batches that run")),
      completed_(series_.With("result", "completed").Counter(kRequests, kRequestsHelp)),
      failed_(series_.With("result", "failed").Counter(kRequests, kRequestsHelp)) {}

void BatchMetrics::Update(const BatchNumbers& numbers) {
  for (const auto& [status, count] : numbers.batches) {
    prometheus::Gauge*& gauge = batches_[status];
    if (gauge == nullptr) gauge = &series_.With("status", status).Gauge("quire:batches", "Batches, by status");
    gauge->Set(static_cast<double>(count));
  }
  files_.Set(static_cast<double>(numbers.files));
  bytes_.Set(static_cast<double>(numbers.bytes));
  max_bytes_.Set(static_cast<double>(numbers.max_bytes));
  running_.Set(static_cast<double>(numbers.running_requests));
  RaiseTo(completed_, static_cast<double>(numbers.completed_requests));
  RaiseTo(failed_, static_cast<double>(numbers.failed_requests));
}

}  // namespace quire
