#include "coordinator/cli/request_logs.h"

#include <spdlog/spdlog.h>

#include <string_view>

#include "comm/base/error.h"
#include "comm/wire/messages.h"
#include "coordinator/api/access/access_log.h"
#include "coordinator/api/access/audit_log.h"

namespace quire {

RequestLogs::RequestLogs(const Topology& topology)
    : json_(topology.logs.access == AccessLog::kJson), audit_(std::make_unique<LineLog>(topology.logs.audit_file)) {
  if (topology.logs.access != AccessLog::kOff) access_ = std::make_unique<LineLog>(topology.logs.access_file);
  if (!topology.traces.endpoint.empty())
    traces_ = std::make_unique<TraceExporter>(ParseCollector(topology.traces.endpoint), "quire", kBuildVersion);
}

void RequestLogs::Write(const char* port, const RequestRecord& record) {
  if (access_ != nullptr) access_->Write(AccessLine(record, port, json_, std::chrono::system_clock::now()));
  if (traces_ != nullptr && record.method == "POST" && std::string_view(port) == "data") traces_->Add(record);
}

HttpService RequestLogs::Audit(HttpService service) {
  return Audited(std::move(service), [this](const std::string& line) { audit_->Write(line); });
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
