#pragma once

#include <functional>
#include <string>

#include "coordinator/http/http_types.h"

namespace quire {

/// Wraps the admin port's service so that operators' actions are logged. The port's Gate then guards the returned
/// service. `write` gets one line of JSON for every POST and PATCH that is not answered with 401 or 429. The line has
/// the time, the name of the operator's token, the address, the path, the parameters and the outcome. Parameters that
/// may hold a prompt or a key appear without their value.
HttpService Audited(HttpService service, std::function<void(const std::string& line)> write);

/// True for POST and PATCH, the methods of operators' actions.
bool IsVerb(const std::string& method);

/// Returns the body's parameters as JSON, as an audit line shows them.
std::string AuditedParameters(const std::string& body);

}  // namespace quire
