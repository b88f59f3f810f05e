#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/client/server_address.h"
#include "coordinator/http/request_record.h"

namespace quire {

/// The address of an OpenTelemetry collector.
struct Collector {
  ServerAddress server;
  std::string path;
};

/// Parses a collector's URL, for example http://127.0.0.1:4318. The default path is /v1/traces. Throws Error for an
/// invalid URL.
Collector ParseCollector(const std::string& url);

/// Replaces `endpoint`, the URL in the settings, by the URL for spans. The result is empty when OpenTelemetry's
/// variables switch traces off, and comes from these variables when the settings have none. Throws Error for an invalid
/// URL or variable.
void TakeOtelVariables(std::string& endpoint);

/// Sends the spans of requests to an OpenTelemetry collector (OTLP over HTTP, as JSON) in batches, on a thread of its
/// own. A slow or missing collector never delays a request; spans that it does not get are counted and logged.
class TraceExporter {
 public:
  /// `headers` are sent with each POST. `resource` holds the attributes that describe this server to the collector.
  TraceExporter(Collector collector, std::vector<std::pair<std::string, std::string>> headers,
                const std::map<std::string, std::string>& resource);
  /// Sends the waiting spans, for two seconds at most. Before that, a batch that is being sent may take five seconds.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  /// Adds the spans of a request that has just ended. Any thread may call it. It does not wait.
  void Add(const RequestRecord& record);

  /// Returns the number of spans that the collector did not get.
  int64_t num_lost() const;

 private:
  void Run();
  std::string Send(std::vector<Json> spans, std::chrono::seconds patience) const;

  Collector collector_;
  std::vector<std::pair<std::string, std::string>> headers_;
  Json resource_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Json> waiting_;  // guarded by mutex_, like the next two members
  int64_t lost_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace quire
