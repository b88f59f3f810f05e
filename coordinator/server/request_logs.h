#pragma once

#include <functional>
#include <memory>

#include "comm/topology/topology.h"
#include "coordinator/http/http_types.h"
#include "coordinator/log/line_log.h"
#include "coordinator/traces/trace_exporter.h"

namespace quire {

/// The logs of requests that the topology configures: the access log of both ports, the audit log of the admin port,
/// and trace spans of POST requests to the data port. Only the I/O thread may use this object, which must outlive the
/// servers that write to it.
class RequestLogs {
 public:
  /// Opens the log files. Throws Error when a file cannot be written.
  explicit RequestLogs(const Topology& topology);

  /// Logs a request to a port ("data" or "admin"), and sends the spans of a POST request to the data port. Called when
  /// the request has ended.
  void Write(const char* port, const RequestRecord& record);
  /// Wraps the admin port's service so that its changing requests are logged (audit_log.h).
  HttpService Audit(HttpService service);
  /// Opens new log files after the old files were moved away (SIGHUP). If a file cannot be created, logs an error and
  /// goes on with the old file.
  void Reopen();

 private:
  const bool json_;
  const bool access_in_log_, audit_in_log_;  // true: the log goes to standard error, as JSON with level and message
  std::unique_ptr<LineLog> access_, audit_;  // access_ is null without an access log
  std::unique_ptr<TraceExporter> traces_;    // null: no spans are sent
};

}  // namespace quire
