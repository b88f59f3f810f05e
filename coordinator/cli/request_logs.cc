#include "coordinator/cli/request_logs.h"

#include <spdlog/spdlog.h>

#include "comm/base/error.h"
#include "coordinator/api/access/access_log.h"
#include "coordinator/api/access/audit_log.h"

namespace quire {

RequestLogs::RequestLogs(const Topology::Logs& logs)
    : json_(logs.access == AccessLog::kJson),
      access_(logs.access == AccessLog::kOff ? nullptr : std::make_unique<LineLog>(logs.access_file)),
      audit_(std::make_unique<LineLog>(logs.audit_file)) {}

std::function<void(const RequestRecord&)> RequestLogs::OfAccess(const char* port) {
  if (access_ == nullptr) return {};
  return [this, port](const RequestRecord& record) {
    access_->Write(AccessLine(record, port, json_, std::chrono::system_clock::now()));
  };
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
