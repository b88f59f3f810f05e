#include "coordinator/server/request_logs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "comm/base/error.h"
#include "comm/wire/messages.h"
#include "coordinator/api/access/access_log.h"
#include "coordinator/api/access/audit_log.h"
#include "coordinator/traces/otel_variables.h"

namespace quire {

namespace {

/// True for POST requests to the data port that passed its checks. Spans of other requests would let strangers displace
/// clients' spans and flood the collector.
bool IsWorthASpan(const RequestRecord& record, std::string_view port) {
  constexpr int kTurnedAway[] = {401, 403, 404, 405, 408, 413, 429, 431};
  return port == "data" && record.method == "POST" &&
         std::ranges::find(kTurnedAway, record.status) == std::end(kTurnedAway);
}

/// Returns a JSON line of the access or audit log, extended by the members that every line of a JSON log has.
std::string WithLevel(std::string line, const char* message) {
  return line.insert(1, fmt::format(R"("level":"info","message":"{}",)", message));
}

}  // namespace

RequestLogs::RequestLogs(const Topology& topology)
    : json_(topology.logs.access == AccessLog::kJson),
      access_in_log_(topology.logs.format == LogFormat::kJson && topology.logs.access_file.empty()),
      audit_in_log_(topology.logs.format == LogFormat::kJson && topology.logs.audit_file.empty()),
      audit_(std::make_unique<LineLog>(topology.logs.audit_file)) {
  if (topology.logs.access != AccessLog::kOff) access_ = std::make_unique<LineLog>(topology.logs.access_file);
  if (topology.traces.endpoint.empty()) return;
  OtelVariables variables = ReadOtelVariables();
  std::map<std::string, std::string> resource = {{"service.name", "quire"}, {"service.version", kBuildVersion}};
  for (auto& [key, value] : variables.resource) resource[key] = std::move(value);
  traces_ =
      std::make_unique<TraceExporter>(ParseCollector(topology.traces.endpoint), std::move(variables.headers), resource);
}

void RequestLogs::Write(const char* port, const RequestRecord& record) {
  if (access_ != nullptr) {
    std::string line = AccessLine(record, port, json_, std::chrono::system_clock::now());
    access_->Write(access_in_log_ ? WithLevel(std::move(line), "access") : line);
  }
  if (traces_ != nullptr && IsWorthASpan(record, port)) traces_->Add(record);
}

HttpService RequestLogs::Audit(HttpService service) {
  return Audited(std::move(service),
                 [this](const std::string& line) { audit_->Write(audit_in_log_ ? WithLevel(line, "audit") : line); });
}

void RequestLogs::Reopen() {
  for (LineLog* log : {access_.get(), audit_.get()}) {
    try {
      if (log != nullptr) log->Reopen();
    } catch (const Error& error) {
      spdlog::error("kept the log as it was: {}", error.what());
    }
  }
}

}  // namespace quire
