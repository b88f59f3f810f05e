#pragma once

#include <functional>
#include <string>

#include "coordinator/api/http/http_types.h"

namespace quire {

/// The same service; of every verb (a POST or PATCH) that was asked for with a known token it writes a line of JSON:
/// when, whose token, from where, which verb, its parameters and its outcome. Parameters that may hold a prompt or a
/// key are named without their value. `service` is that of the admin port behind its gate.
HttpService Audited(HttpService service, std::function<void(const std::string& line)> write);

/// What an audit line tells of a verb's body.
std::string AuditedParameters(const std::string& body);

}  // namespace quire
