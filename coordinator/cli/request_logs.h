#pragma once

#include <functional>
#include <memory>

#include "comm/topology/topology.h"
#include "coordinator/api/http/http_types.h"
#include "coordinator/log/line_log.h"

namespace quire {

/// The access log of both ports and the audit log of the admin port, as the topology wants them. Belongs to the I/O
/// thread; outlives the servers that write to it.
class RequestLogs {
 public:
  /// Throws Error when a file cannot be written.
  explicit RequestLogs(const Topology::Logs& logs);

  /// What hears of requests to a port ("data", "admin"); empty without an access log.
  std::function<void(const RequestRecord&)> OfAccess(const char* port);
  /// The admin port's service, with its verbs written down (audit_log.h).
  HttpService Audit(HttpService service);
  /// After the files were moved away (SIGHUP): new ones. A file that cannot be made is told of, and the old one goes
  /// on.
  void Reopen();

 private:
  bool json_;
  std::unique_ptr<LineLog> access_, audit_;  // the first is null without an access log
};

}  // namespace quire
