#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/api/http/request_record.h"

namespace quire {

/// The spans of a request that is over, as OTLP has them in JSON (opentelemetry-proto, trace.proto): one of the whole
/// request and, where tokens were generated, of its wait, its prompt and its answer inside it. They belong to the trace
/// that the request's traceparent names, or begin one; none when that says that it is not recorded. `ended`: when the
/// answer was over. new_id: so many random bytes as hexadecimal digits. Attributes have the names of OpenTelemetry's
/// conventions for HTTP and, as vLLM has them, for generation.
std::vector<Json> SpansOf(const RequestRecord& record, std::chrono::system_clock::time_point ended,
                          const std::function<std::string(int bytes)>& new_id);

}  // namespace quire
