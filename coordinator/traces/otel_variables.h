#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace quire {

/// The settings of traces in the environment variables that OpenTelemetry defines for all programs.
struct OtelVariables {
  std::string endpoint;  // URL for traces; empty: no variable sets it
  bool disabled = false;  // OTEL_SDK_DISABLED, or OTEL_TRACES_EXPORTER=none: no spans are sent
  std::vector<std::pair<std::string, std::string>> headers;  // sent with each POST; may be secret
  std::map<std::string, std::string> resource;               // attributes of this server, such as service.name
};

/// Reads the variables. `variable`: returns a variable's text; empty when it is not set. A variable for traces alone
/// takes precedence over the variable for all signals. Throws Error that names the variable, but never the value of a
/// header, which may be secret.
OtelVariables ReadOtelVariables(const std::function<std::string(const char* name)>& variable);

/// Reads OpenTelemetry's variables from this process's environment.
OtelVariables ReadOtelVariables();

}  // namespace quire
