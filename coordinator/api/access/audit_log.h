#pragma once

#include <functional>
#include <string>

#include "coordinator/http/http_types.h"

namespace quire {

/// Wraps the service of the admin port, behind its Gate. For every POST and PATCH with a known token, `write` gets one
/// line of JSON: the time, the token's name, the address, the path, the parameters and the outcome. Parameters that may
/// hold a prompt or a key appear without their value.
HttpService Audited(HttpService service, std::function<void(const std::string& line)> write);

/// The parameters, as JSON, that an audit line shows of this body.
std::string AuditedParameters(const std::string& body);

}  // namespace quire
