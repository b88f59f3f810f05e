#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/http/request_record.h"
#include "coordinator/client/server_address.h"

namespace quire {

/// A collector of OpenTelemetry.
struct Collector {
  ServerAddress server;
  std::string path;
};

/// URL of a collector, for example http://127.0.0.1:4318; without a path it takes traces at /v1/traces. Throws Error
/// for what is none.
Collector ParseCollector(const std::string& url);

/// Sends the spans of requests to a collector of OpenTelemetry (OTLP over HTTP, as JSON), in batches, on a thread of
/// its own. A collector that is slow or gone costs spans, which are counted and told of in the log, never a request's
/// time.
class TraceExporter {
 public:
  /// service: what the server calls itself.
  TraceExporter(Collector collector, const std::string& service, const std::string& version);
  /// What waits is sent, for two seconds at the most.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  /// The request is over just now. From any thread; does not wait.
  void Add(const RequestRecord& record);

  /// Spans that the collector did not get.
  int64_t num_lost() const;

 private:
  void Run();
  std::string Send(std::vector<Json> spans, std::chrono::seconds patience) const;

  Collector collector_;
  Json resource_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Json> waiting_;  // guarded by mutex_, as are the next two
  int64_t lost_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace quire
