#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/http/request_record.h"

namespace quire {

/// Returns the spans of a finished request as OTLP JSON (opentelemetry-proto, trace.proto). The first span covers the
/// whole request. Inside it are a span for the queue, if the request was computed, and spans for prefill and decode, if
/// it had a token. The spans belong to the trace in the request's traceparent header, or begin a new trace; if that
/// trace is not sampled there are no spans. `ended`: when the answer ended. new_id: returns `bytes` random bytes as
/// hexadecimal digits. Attribute names follow OpenTelemetry's conventions for HTTP, and vLLM's for generation.
std::vector<Json> SpansOf(const RequestRecord& record, std::chrono::system_clock::time_point ended,
                          const std::function<std::string(int bytes)>& new_id);

}  // namespace quire
