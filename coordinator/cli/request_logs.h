#pragma once

#include <functional>
#include <memory>

#include "comm/topology/topology.h"
#include "coordinator/api/http/http_types.h"
#include "coordinator/log/line_log.h"
#include "coordinator/traces/trace_exporter.h"

namespace quire {

/// What is written down of requests, as the topology wants it: the access log of both ports, the audit log of the admin
/// port, and spans of what is posted to the data port. Belongs to the I/O thread; outlives the servers that write to
/// it.
class RequestLogs {
 public:
  /// Throws Error when a file cannot be written.
  explicit RequestLogs(const Topology& topology);

  /// A request to a port ("data", "admin") is over.
  void Write(const char* port, const RequestRecord& record);
  /// The admin port's service, with its verbs written down (audit_log.h).
  HttpService Audit(HttpService service);
  /// After the files were moved away (SIGHUP): new ones. A file that cannot be made is told of, and the old one goes
  /// on.
  void Reopen();

 private:
  bool json_;
  std::unique_ptr<LineLog> access_, audit_;  // the first is null without an access log
  std::unique_ptr<TraceExporter> traces_;    // null: no spans are sent
};

}  // namespace quire
